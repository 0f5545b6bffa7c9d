import asyncio
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from agentic.llm.types import Picture
from agentic.net import images as picture_scaling
from agentic.net.addresses import FetchRefused
from agentic.net.images import ImageLimits, Scaler, media_type_of, scale, size_of

SMALL = ImageLimits(longest_side=100, max_bytes=50_000)
JPEG_ONLY = frozenset({"image/jpeg"})


def drawn(size=(300, 200), form="PNG", mode="RGB", color="red", **options):
    out = io.BytesIO()
    Image.new(mode, size, color).save(out, form, **options)
    return out.getvalue()


def noise(size):
    out = io.BytesIO()
    Image.effect_noise(size, 90).convert("RGB").save(out, "PNG")
    return out.getvalue()


def picture(data):
    return Picture(data, media_type_of(data))


async def test_a_picture_that_fits_is_not_touched():
    small = picture(drawn((100, 60)))
    assert await Scaler().fit(small, SMALL) is small


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_large_picture_keeps_its_shape(form):
    fitted = await Scaler().fit(picture(drawn(form=form)), SMALL)
    assert max(size_of(fitted.data, fitted.media_type)) == 100
    width, height = size_of(fitted.data, fitted.media_type)
    assert (width, height) in [(100, 67), (100, 66)]


async def test_what_is_too_many_bytes_becomes_a_jpeg_that_is_few_enough():
    fitted = await Scaler().fit(picture(noise((400, 400))), ImageLimits(longest_side=1000, max_bytes=20_000))
    assert fitted.media_type == media_type_of(fitted.data) == "image/jpeg"
    assert len(fitted.data) <= 20_000


async def test_what_is_transparent_stays_so():
    clear = drawn((300, 200), mode="RGBA", color=(255, 0, 0, 0))
    fitted = await Scaler().fit(picture(clear), SMALL)
    assert fitted.media_type == "image/png"
    assert Image.open(io.BytesIO(fitted.data)).getpixel((5, 5))[3] == 0


async def test_what_is_transparent_stands_on_white_where_only_jpeg_is_taken():
    clear = drawn((300, 200), mode="RGBA", color=(255, 0, 0, 0))
    fitted = await Scaler().fit(picture(clear), ImageLimits(media_types=JPEG_ONLY))
    assert fitted.media_type == "image/jpeg"
    assert min(Image.open(io.BytesIO(fitted.data)).getpixel((5, 5))) > 250


async def test_a_kind_that_is_not_taken_becomes_one_that_is():
    fitted = await Scaler().fit(picture(drawn((50, 50), "GIF")), ImageLimits(media_types=JPEG_ONLY))
    assert media_type_of(fitted.data) == "image/jpeg"


async def test_a_photo_taken_upright_stands_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    fitted = await Scaler().fit(picture(drawn((300, 200), "JPEG", exif=exif)), SMALL)
    width, height = size_of(fitted.data, fitted.media_type)
    assert width < height
    assert b"Exif" not in fitted.data


async def test_the_same_content_is_scaled_once(monkeypatch):
    done = []
    monkeypatch.setattr(picture_scaling, "scale", lambda data, fit: done.append(fit) or scale(data, fit))
    scaler = Scaler()
    first, again = await scaler.fit(picture(drawn()), SMALL), await scaler.fit(picture(drawn()), SMALL)
    assert (first, len(done)) == (again, 1)
    await scaler.fit(picture(drawn()), ImageLimits(longest_side=50))
    assert len(done) == 2


async def test_no_more_than_two_are_decoded_at_once(monkeypatch):
    at_work, most = [0], [0]

    async def counted(work, *arguments):
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        await asyncio.sleep(0)
        at_work[0] -= 1
        return work(*arguments)

    monkeypatch.setattr(picture_scaling.asyncio, "to_thread", counted)
    scaler = Scaler()
    colors = ["red", "green", "blue", "black", "white"]
    await asyncio.gather(*(scaler.fit(picture(drawn(color=color)), SMALL) for color in colors))
    assert most[0] == 2


def test_a_bomb_is_not_decoded(monkeypatch):
    monkeypatch.setattr(picture_scaling, "MAX_PIXELS", 50_000)
    with pytest.raises(FetchRefused, match="too many pixels"):
        scale(drawn(), SMALL)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP"]), st.data())
def test_a_broken_picture_is_refused_or_read_but_never_fails_otherwise(form, data):
    whole = drawn((120, 120), form)
    cut = whole[: data.draw(st.integers(12, len(whole)))]
    at = data.draw(st.integers(0, len(cut) - 1))
    broken = cut[:at] + data.draw(st.binary(min_size=1, max_size=4)) + cut[at + 1 :]
    try:
        fitted = scale(broken, SMALL)
    except FetchRefused:
        return
    assert media_type_of(fitted.data) == fitted.media_type


async def test_what_was_not_asked_for_the_longest_is_forgotten_and_what_is_too_large_is_not_kept():
    pictures = [picture(drawn(size)) for size in ((300, 20), (310, 20), (320, 20))]
    sizes = [len((await Scaler().fit(one, SMALL)).data) for one in pictures]
    two = Scaler(cache_bytes=sum(sorted(sizes)[1:]))
    first, _, _ = [await two.fit(one, SMALL) for one in pictures]
    assert await two.fit(pictures[0], SMALL) is not first
    assert await two.fit(pictures[2], SMALL) is await two.fit(pictures[2], SMALL)
    none = Scaler(cache_bytes=1)
    assert await none.fit(pictures[0], SMALL) is not await none.fit(pictures[0], SMALL)
