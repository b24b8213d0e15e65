# debian.sh - a minimal Debian system in a folder, by debootstrap; sourced.
#
# Environment: WEIR_MIRROR, Debian's mirror; default: the first of this machine's apt sources.
# shellcheck shell=sh

weir_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
        2>/dev/null |
        sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' |
        grep -v security | head -n 1
}

# weir_debian SUITE FOLDER PACKAGES: makes the system, once; PACKAGES has commas.
weir_debian() {
    [ ! -f "$2/.complete" ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null 2>&1; then
        echo "Debian $1: needs root and debootstrap (apt-get install debootstrap)"
        return 1
    fi
    weir_from=${WEIR_MIRROR:-$(weir_mirror)}
    [ -n "$weir_from" ] || {
        echo "Debian $1: no mirror; set WEIR_MIRROR"
        return 1
    }
    # A suite that is newer than debootstrap is made as Debian's unstable one.
    weir_script=
    [ -e "/usr/share/debootstrap/scripts/$1" ] || weir_script=/usr/share/debootstrap/scripts/sid
    printf '== Debian %s into %s\n' "$1" "$2"
    rm -rf "$2"
    mkdir -p "$2"
    debootstrap --variant=minbase --include="$3" "$1" "$2" "$weir_from" $weir_script \
        >"$2.log" 2>&1 || {
        tail -n 5 "$2.log"
        return 1
    }
    : >"$2/.complete"
}
