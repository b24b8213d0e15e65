#!/bin/sh
# run.sh - runs commands on an emulated processor: AMX and AVX512_FP16 without the machine.
#
# Usage: run.sh BUILD KERNEL 'COMMAND' ...
#   BUILD      folder with the programs weir, test_op, test_device, test_graph, test_model
#   KERNEL     a Linux kernel, such as /boot/vmlinuz-*; 5.16 or later saves AMX's tiles
#   COMMAND    run in a folder with those programs: './test_op "values bf16"'
# Environment:
#   WEIR_BOCHS        the emulator (default: bochs), 3.0 or later, with --enable-evex --enable-amx;
#                     docs/contributing/processors.md says what else it needs
#   WEIR_BOCHS_CPU    its processor (default: sapphire_rapids)
#   WEIR_BOCHS_BIOS   its BIOS (default: SeaBIOS, /usr/share/seabios/bios-256k.bin)
#   WEIR_BOCHS_HOURS  after which it is stopped (default: 2)
#
# Boots the kernel from a CD image whose only process runs the commands, and prints what they print,
# then for each "rc N (T s)  COMMAND". The exit status is 0 if each command's is 0. A command runs
# some 50 to 300 times as slowly as on a machine; times say nothing.
# Debian's packages: bochs or its source, seabios, vgabios, busybox-static, cpio, grub-pc-bin,
# mtools, xorriso.
set -eu
if [ $# -lt 3 ]; then
    sed -n 's/^# \{0,1\}//; 4,7p' "$0" >&2
    exit 2
fi
build=$1 kernel=$2
shift 2
for program in "${WEIR_BOCHS:-bochs}" busybox cpio grub-mkrescue xorriso mformat strip; do
    command -v "$program" >/dev/null || { echo "run.sh: there is no program $program" >&2; exit 2; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root serial=$folder/serial
mkdir -p "$root/bin" "$root/lib" "$root/lib64" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" \
    "$root/weir" "$folder/cd/boot/grub"

# The programs, and all that they load: OpenBLAS is opened by name.
cp "$(command -v busybox)" "$root/bin/busybox"
for name in weir test_op test_device test_graph test_model; do
    [ ! -f "$build/$name" ] || strip -o "$root/weir/$name" "$build/$name"
done
blas=$(ldconfig -p | sed -n 's/.*libopenblas\.so\.0 .*=> //p' | head -n 1)
{ for file in "$root"/weir/* ${blas:+"$blas"}; do ldd "$file"; done; echo "$blas"; } |
    grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r file; do cp -L "$file" "$root/lib"; done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64"

number=0
for command; do
    number=$((number + 1))
    printf '%s\n' "$command" >"$root/weir/command$number"
done
cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp TMPDIR=/tmp LD_LIBRARY_PATH=/lib
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1
cd /weir
n=1
while [ -f command$n ]; do
    begin=$(cut -d. -f1 /proc/uptime)
    sh ./command$n
    echo "rc $? ($(($(cut -d. -f1 /proc/uptime) - begin)) s)  $(cat command$n)"
    n=$((n + 1))
done
echo "emulated: done"
sleep 10             # the port is slow
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$folder/cd/boot/initrd"
cp "$kernel" "$folder/cd/boot/kernel"
# no5lvl: Bochs 3.0 does not come back from system management mode with pages of five levels.
cat >"$folder/cd/boot/grub/grub.cfg" <<'END'
set timeout=0
menuentry weir {
    linux /boot/kernel console=ttyS0 rdinit=/init quiet tsc=unstable mitigations=off no5lvl
    initrd /boot/initrd
}
END
grub-mkrescue -o "$folder/cd.iso" "$folder/cd" >/dev/null 2>&1

cat >"$folder/bochsrc" <<END
display_library: nogui
cpu: model=${WEIR_BOCHS_CPU:-sapphire_rapids}, count=1, ips=50000000, ignore_bad_msrs=1
memory: guest=2048, host=2048
romimage: file=${WEIR_BOCHS_BIOS:-/usr/share/seabios/bios-256k.bin}
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$folder/cd.iso, status=inserted
boot: cdrom
clock: sync=none
com1: enabled=1, mode=file, dev=$serial
log: $folder/log
panic: action=report
error: action=ignore
info: action=ignore
END
timeout $((${WEIR_BOCHS_HOURS:-2} * 3600)) "${WEIR_BOCHS:-bochs}" -q -f "$folder/bochsrc" \
    >/dev/null 2>&1 || :
tr -d '\r' <"$serial" | sed '/^\[ *[0-9]*\.[0-9]*\]/d'
grep -q '^emulated: done' "$serial" && ! grep -q '^rc [1-9]' "$serial"
