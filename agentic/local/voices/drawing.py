"""Pictures without a model: pixel art, 32 cells square, as a PNG written with zlib.

A sky in the agent's color, a sun or a moon, hills, and a small symmetric creature. The description seeds the random
generator, so the same words draw the same picture. https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import hashlib
import random
import struct
import zlib

Color = tuple[int, int, int]

CELLS = 32
SCALE = 8  # pixels a cell
SIZE = CELLS * SCALE
COLORS: dict[str, Color] = {
    "chatgpt": (16, 163, 127),
    "claude": (217, 119, 87),
    "gemini": (66, 133, 244),
    "grok": (122, 104, 174),
}
OTHER: Color = (110, 120, 140)
WHITE: Color = (250, 250, 245)
INK: Color = (32, 30, 40)
WARM: Color = (255, 214, 120)

BODY_WIDTH, BODY_HEIGHT = 5, 9  # cells of the creature's left half
GROUND = 24  # the row of its feet


def draw_png(description: str, agent: str) -> bytes:
    """A PNG of SIZE × SIZE pixels, the same for the same description and agent."""
    rng = random.Random(hashlib.sha256(f"{agent}\n{description}".encode()).digest())
    color = COLORS.get(agent, OTHER)
    canvas = _sky(rng, color)
    _light(canvas, rng)
    _hills(canvas, rng, color)
    _creature(canvas, rng, color)
    # 8 bits a channel, RGB, each row with filter 0.
    lines = (b"\0" + b"".join(bytes(cell) * SCALE for cell in row) for row in canvas)
    pixels = b"".join(line * SCALE for line in lines)
    header = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _sky(rng: random.Random, color: Color) -> list[list[Color]]:
    top, bottom = _mix(color, INK, 0.55), _mix(color, WHITE, 0.65)
    rows = [[_mix(top, bottom, y / GROUND if y < GROUND else 1.0)] * CELLS for y in range(CELLS)]
    for _ in range(14):
        rows[rng.randrange(12)][rng.randrange(CELLS)] = WHITE
    return rows


def _light(canvas: list[list[Color]], rng: random.Random) -> None:
    """A sun, or a moon with a bite."""
    cx, cy, radius = rng.choice((6, 25)), rng.randrange(5, 8), rng.randrange(3, 5)
    bite = rng.choice((0, 2))
    for y in range(cy - radius, cy + radius + 1):
        for x in range(cx - radius, cx + radius + 1):
            inside = (x - cx) ** 2 + (y - cy) ** 2 <= radius**2
            bitten = bite and (x - cx - bite) ** 2 + (y - cy + 1) ** 2 <= (radius - 1) ** 2
            if inside and not bitten and 0 <= x < CELLS:
                canvas[y][x] = WARM


def _hills(canvas: list[list[Color]], rng: random.Random, color: Color) -> None:
    for depth, shade in ((0, 0.25), (3, 0.5)):
        height = GROUND - 3 + depth
        for x in range(CELLS):
            height = max(GROUND - 4 + depth, min(GROUND + 1 + depth, height + rng.choice((-1, 0, 0, 1))))
            for y in range(height, CELLS):
                canvas[y][x] = _mix(color, INK, shade)


def _creature(canvas: list[list[Color]], rng: random.Random, color: Color) -> None:
    """A rounded body, mirrored, with eyes, a mouth, feet, and ears, a hat or a feeler."""
    fur, middle = _mix(color, WHITE, rng.uniform(0.35, 0.75)), CELLS // 2
    top = GROUND - BODY_HEIGHT + 1
    for row in range(BODY_HEIGHT):
        width = BODY_WIDTH + (0 if 1 <= row < BODY_HEIGHT - 1 else -2) + (rng.random() < 0.25)
        for x in range(width):
            spot = rng.random() < 0.12 and row > 5
            _both(canvas, middle, x, top + row, _mix(fur, color, 0.5) if spot else fur)
    for x in (1, 2):
        for y in (2, 3):
            _both(canvas, middle, x, top + y, WHITE)
    _both(canvas, middle, rng.choice((1, 2)), top + 3, INK)
    _both(canvas, middle, 0, top + 6, INK)
    _both(canvas, middle, 1, top + rng.choice((5, 6)), INK)
    _extras(canvas, rng, middle, top, fur)


def _extras(canvas: list[list[Color]], rng: random.Random, middle: int, top: int, fur: Color) -> None:
    for x in (1, 3):
        _both(canvas, middle, x, top + BODY_HEIGHT, INK)
    kind = rng.choice(("ears", "hat", "feeler"))
    if kind == "ears":
        for x, y in ((3, 1), (4, 1), (4, 2)):
            _both(canvas, middle, x, top - y, fur)
    elif kind == "hat":
        for x, y in ((0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (1, 2), (0, 3), (1, 3)):
            _both(canvas, middle, x, top - y, INK if y > 1 else _mix(INK, WARM, 0.3))
    else:
        for x, y in ((1, 1), (2, 2)):
            _both(canvas, middle, x, top - y, INK)
        _both(canvas, middle, 3, top - 3, WARM)


def _both(canvas: list[list[Color]], middle: int, x: int, y: int, color: Color) -> None:
    canvas[y][middle + x] = canvas[y][middle - 1 - x] = color


def _mix(one: Color, other: Color, share: float) -> Color:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue
