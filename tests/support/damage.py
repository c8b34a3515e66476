"""Bytes that were whole."""

from random import Random


def damaged(chance: Random, value: bytes) -> bytes:
    """Cut short, lengthened, or with some other bytes."""
    kind = chance.randrange(4)
    if kind == 0:
        return value[: chance.randrange(len(value) + 1)]
    if kind == 1:
        return value + chance.randbytes(chance.randint(1, 12))
    spoiled = bytearray(value)
    for _ in range(chance.randint(1, 4)):
        if spoiled:
            spoiled[chance.randrange(len(spoiled))] = chance.choice(
                [0, 1, 8, 127, 128, 255, chance.randrange(256)]
            )
    return bytes(spoiled)
