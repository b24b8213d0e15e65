"""rank_files - runs that several ranks save together: a part each, and a manifest renamed last.

The files are those of src/model/file/sources.h and ranks.c: a manifest is a safetensors file
without tensors, which names the parts with their sizes and checksums. C and Python read each
other's.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from weir import errors
from weir.errors import CommError, Error, FileError
from weir.files import Archive, Entry, opened, write_safetensors
from weir.typing import Array, Path, Shape

RANKS_LIMIT = 65536
SENTENCE = 1024             # bytes of a message that ranks exchange
OF_RANK = "weir_rank."      # before the name of a tensor that is another one on that rank


class Ranks(Protocol):
    """What is needed of a weir.comm.Communicator."""

    rank: int
    world: int

    def gather(self, data: bytes) -> list[bytes]:
        """The bytes of every rank, as many on each."""
        ...


# ---- loading ----

class RankArchive(Archive):
    """The tensors of all parts of a manifest, as one rank sees them: its own stand for those of all
    that have the same name."""

    def __init__(self, main: Archive, parts: list[Archive], rank: int) -> None:
        self.path: str = main.path
        own, suffix = f"{OF_RANK}{rank}.", f".{rank}"
        self.metadata: dict[str, str] = dict(main.metadata)
        if rank > 0:
            self.metadata.update((key[:-len(suffix)], text) for key, text in main.metadata.items()
                                 if key.endswith(suffix) and key[:-len(suffix)] in main.metadata)
        self._of: dict[str, tuple[Archive, str]] = {}
        for part in parts:
            self._of.update((name, (part, name)) for name in part if not name.startswith(OF_RANK))
        for part in parts:
            self._of.update((name[len(own):], (part, name)) for name in part
                            if name.startswith(own))

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def kind(self, name: str) -> str:
        """safetensors' name of the element type of a tensor: "F32"."""
        part, there = self._of[name]
        return part.kind(there)

    def shape(self, name: str) -> Shape:
        """The shape of a tensor."""
        part, there = self._of[name]
        return part.shape(there)

    def bytes(self, name: str) -> memoryview:
        """The elements of a tensor as the file has them: little-endian."""
        part, there = self._of[name]
        return part.bytes(there)

    def __getitem__(self, name: str) -> Array:
        part, there = self._of[name]
        return part[there]


def _number(main: Archive, key: str) -> int:
    text = main.metadata.get(key)
    if text is None:
        raise FileError(f"{main.path}: lacks {key}")
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise FileError(f"{main.path}: {key} is {text[:30]!r}, no whole number")
    return int(text)


def _check_part(main: Archive, rank: int, path: str) -> None:
    """Size and checksum must be those that the manifest says."""
    size, crc = 0, 0
    with open(path, "rb") as f:
        if os.fstat(f.fileno()).st_size == _number(main, f"weir_part_bytes.{rank}"):
            while chunk := f.read(1 << 20):
                size += len(chunk)
                crc = zlib.crc32(chunk, crc)
    if size != _number(main, f"weir_part_bytes.{rank}"):
        raise FileError(f"{path}: has another size than the manifest says")
    if crc != _number(main, f"weir_part_crc32.{rank}"):
        raise FileError(f"{path}: has the checksum {crc:08x}, the manifest says another one")


def _part_path(main: Archive, rank: int) -> str:
    name = main.metadata.get(f"weir_part.{rank}", "")
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise FileError(f"{main.path}: {name[:60]!r} is no name of a part")
    return os.path.join(os.path.dirname(main.path), name)


@contextlib.contextmanager
def opened_run(path: Path, rank: int = 0) -> Iterator[Archive]:
    """A safetensors file, or the parts of a manifest as this rank sees them, checked."""
    with contextlib.ExitStack() as stack:
        main = stack.enter_context(opened(path))
        if "weir_ranks" not in main.metadata:
            yield main
            return
        world = _number(main, "weir_ranks")
        if not 1 <= world <= RANKS_LIMIT:
            raise FileError(f"{main.path}: is of {world} ranks, not 1 to {RANKS_LIMIT}")
        if len(main) > 0:
            raise FileError(f"{main.path}: is a manifest, and has tensors")
        parts = []
        for r in range(world):
            place = _part_path(main, r)
            try:
                _check_part(main, r, place)
                parts.append(stack.enter_context(opened(place)))
            except Error:
                raise
            except OSError as error:
                raise FileError(f"{place}: cannot be opened ({error.strerror})") from error
        yield RankArchive(main, parts, rank % world)


# ---- what all ranks learn ----

def agreed(ranks: Ranks, what: str, failure: BaseException | None) -> None:
    """Raises on all ranks if one has failed: its own exception there, its sentence elsewhere."""
    text = "" if failure is None else json.dumps([type(failure).__name__, str(failure)[:200]])
    for r, data in enumerate(ranks.gather(text.encode().ljust(SENTENCE))):
        told = data.decode().strip()
        if failure is not None:
            raise failure
        if told:
            name, sentence = json.loads(told)
            kind = getattr(errors, name, FileError)
            is_ours = isinstance(kind, type) and issubclass(kind, Error)
            raise (kind if is_ours else FileError)(f"{what}: rank {r} has failed: {sentence}")


@contextlib.contextmanager
def together(ranks: Ranks | None, what: str) -> Iterator[None]:
    """A block that fails on all ranks if it fails on one."""
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    if ranks is not None and ranks.world > 1:
        agreed(ranks, what, failure)
    elif failure is not None:
        raise failure


# ---- saving ----

def _generation(path: str) -> int:
    """The generation of a manifest; 0 if the file is none."""
    try:
        with opened(path) as main:
            return _number(main, "weir_generation") if "weir_ranks" in main.metadata else 0
    except (OSError, Error):
        return 0


def _remove_parts(path: str, generation: int) -> None:
    """Parts of checkpoints that are replaced, and of those that failed or were killed."""
    folder, base = os.path.split(path)
    part = re.compile(re.escape(base) + r"\.([0-9]+)\.[0-9]+\.part")
    kept = {generation, _generation(path + ".bak")}
    for name in os.listdir(folder or "."):
        match = part.fullmatch(name)
        if match and int(match[1]) not in kept:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


def _gather_numbers(ranks: Ranks, numbers: list[int]) -> list[list[int]]:
    data = json.dumps(numbers).encode().ljust(SENTENCE)
    return [json.loads(one) for one in ranks.gather(data)]


def _own(ranks: Ranks, entries: list[Entry]) -> list[Entry]:
    """What this rank writes: of tensors that all have, its share; of others, its own."""
    digests = ranks.gather(b"".join(hashlib.blake2b(e.make(), digest_size=16).digest()
                                    for e in entries))
    load = [0] * ranks.world
    mine = []
    for i, entry in enumerate(entries):
        each = [d[16 * i:16 * i + 16] for d in digests]
        owner = load.index(min(load)) if len(set(each)) == 1 else 0
        load[owner] += entry.size
        if owner == ranks.rank:
            mine.append(entry)
        elif each[ranks.rank] != each[0]:
            mine.append(entry._replace(name=f"{OF_RANK}{ranks.rank}.{entry.name}"))
    return mine


def _check_alike(ranks: Ranks, entries: list[Entry], step: str) -> None:
    listed = json.dumps([[e.name, e.kind, e.shape] for e in entries]).encode()
    alike = ranks.gather(hashlib.blake2b(listed, digest_size=16).digest() + step.encode().ljust(24))
    for r, one in enumerate(alike):
        if one[16:] != alike[0][16:]:
            raise CommError(f"save_run: rank 0 is at step {alike[0][16:].decode().strip()}, rank "
                            f"{r} at step {one[16:].decode().strip()}")
        if one != alike[0]:
            raise CommError(f"save_run: ranks 0 and {r} have tensors of other names, types or "
                            "shapes")


def save(ranks: Ranks, path: Path, entries: Callable[[], list[Entry]], metadata: Mapping[str, str],
         own: Mapping[str, str], keep_previous: bool) -> None:
    """Writes the entries of all ranks. own: of metadata, what may differ between ranks; it fits in
    SENTENCE bytes. On a failure of any rank the former checkpoint stays."""
    place, what = os.fspath(path), "save_run"
    items: list[Entry] = []
    with together(ranks, what):
        items = sorted(entries(), key=lambda e: e.name)
        if len(json.dumps(dict(own))) > SENTENCE - 100:
            raise errors.InvalidError("save_run: the states of this rank's objects are too long")
    _check_alike(ranks, items, metadata["weir_step"])
    latest = max(_generation(place), _generation(place + ".bak"))
    generation = _gather_numbers(ranks, [latest])[0][0] + 1

    def name_of(rank: int) -> str:
        return f"{place}.{generation}.{rank}.part"

    part = name_of(ranks.rank)
    mine = _own(ranks, items)
    numbers = [0, 0]
    wrote = False
    try:
        with together(ranks, what):
            write_safetensors(part, mine, {"weir_format": metadata["weir_format"]})
            wrote = True
            with open(part, "rb") as f:
                while chunk := f.read(1 << 20):
                    numbers = [numbers[0] + len(chunk), zlib.crc32(chunk, numbers[1])]
    except CommError:       # rank 0 may have heard of all parts: this one stays
        raise
    except Exception:
        if wrote:
            os.unlink(part)
        raise
    told = [json.loads(one) for one in
            ranks.gather(json.dumps([*numbers, dict(own)]).encode().ljust(SENTENCE))]
    with together(ranks, what):
        if ranks.rank == 0:
            notes = {**metadata, "weir_ranks": str(ranks.world), "weir_generation": str(generation)}
            for r, (size, crc, texts) in enumerate(told):
                notes |= {f"weir_part.{r}": os.path.basename(name_of(r)),
                          f"weir_part_bytes.{r}": str(size), f"weir_part_crc32.{r}": str(crc),
                          **({f"{key}.{r}": text for key, text in texts.items()} if r else {})}
            write_safetensors(place, [], dict(sorted(notes.items())), keep_previous)
    if ranks.rank == 0:
        _remove_parts(place, generation)
