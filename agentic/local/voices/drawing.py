"""Pictures without a model: pixel art. The description seeds the random generator, so the same words draw the same."""

from __future__ import annotations

import hashlib
import io
import random

CELLS = 32  # of a picture, in each direction
SIZE = 256  # pixels
COLORS = {"chatgpt": "#10a37f", "claude": "#d97757", "gemini": "#4285f4", "grok": "#7a68ae"}
OTHER = "#6e788c"


def draw_png(description: str, agent: str) -> bytes:
    """A PNG of SIZE × SIZE pixels, the same for the same description and agent: a creature before hills."""
    from PIL import Image, ImageColor, ImageDraw

    rng = random.Random(hashlib.sha256(f"{agent}\n{description}".encode()).digest())
    color, white, ink = ImageColor.getrgb(COLORS.get(agent, OTHER)), (250, 250, 245), (32, 30, 40)

    def mix(other: tuple[int, ...], share: float) -> tuple[int, ...]:
        return tuple(round(own + (more - own) * share) for own, more in zip(color, other, strict=True))

    image = Image.new("RGB", (CELLS, CELLS))
    draw = ImageDraw.Draw(image)
    for y in range(CELLS):
        draw.line((0, y, CELLS, y), mix(ink, 0.55 * (1 - y / CELLS)))
    draw.point([(rng.randrange(CELLS), rng.randrange(12)) for _ in range(14)], white)  # stars
    sun = (rng.choice((6, 25)), rng.randrange(5, 8))
    draw.circle(sun, rng.randrange(3, 5), "#ffd678")
    for top, shade in ((20, 0.25), (23, 0.5)):
        left = rng.randrange(-12, 4)
        draw.ellipse((left, top, left + 28, CELLS * 2), mix(ink, shade))
        draw.ellipse((left + 20, top + 2, left + 48, CELLS * 2), mix(ink, shade))
    fur, hat = mix(white, rng.uniform(0.35, 0.75)), rng.choice(("ears", "hat", "feeler"))
    for foot in (13, 18):
        draw.line((foot, 25, foot + 1, 25), ink)
    if hat == "ears":
        draw.polygon(((12, 16), (12, 12), (15, 16)), fur)
        draw.polygon(((20, 16), (20, 12), (17, 16)), fur)
    elif hat == "hat":
        draw.rectangle((14, 12, 18, 15), ink)
    else:
        draw.line((16, 12, 16, 16), ink)
    draw.rounded_rectangle((11, 15, 21, 24), 3, fur)
    for eye in (13, 18):
        draw.rectangle((eye, 18, eye + 1, 19), white)
        draw.point((eye + rng.randrange(2), 19), ink)
    draw.line((15, 22, 17, 22), ink)
    saved = io.BytesIO()
    image.resize((SIZE, SIZE), Image.Resampling.NEAREST).save(saved, "PNG")
    return saved.getvalue()
