"""The scripts of the console's pages, joined into one file for the frame and one for each page."""

from __future__ import annotations

import re

import pytest

from agentic.console.scripts import FRAME, join_scripts
from agentic.console.static_files import FOLDER

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("js/*.js")}
MODULE = re.compile(
    r"^\$modules\.(\w+) \?\?= \(\(\) => \{$(.*?)^return \{ ([\w, ]*) \};\n\}\)\(\);$", re.MULTILINE | re.DOTALL
)


def test_each_file_has_all_that_its_modules_import_before_they_use_it() -> None:
    files = join_scripts(TEXTS)
    assert {"turns", "live", "room_actions"} < files.keys()
    frame = [name for name, _, _ in MODULE.findall(files[FRAME])]
    for name, text in files.items():
        known = {} if name == FRAME else dict.fromkeys(frame)
        for module, body, _ in MODULE.findall(text):
            assert set(re.findall(r"= \$modules\.(\w+);", body)) <= known.keys(), f"{module} in {name}.js"
            known[module] = None
        assert name in known


def test_all_exports_of_every_module_arrive() -> None:
    returned = {module: names for text in join_scripts(TEXTS).values() for module, _, names in MODULE.findall(text)}
    assert returned.keys() == TEXTS.keys()
    for module, text in TEXTS.items():
        written = re.findall(r"^export (?:async )?(?:const|function|class) (\w+)", text, re.MULTILINE)
        assert returned[module] == ", ".join(written)


def test_a_name_may_be_imported_under_another_one_and_comments_are_left_out() -> None:
    page = 'import { get as ask, post } from "./api.js";\n// why\nexport async function render() {\n  ask(post);\n}\n'
    texts = {"main": 'import("./page.js");', "page": page, "api": "export const get = 1;\nexport const post = 2;\n"}
    files = join_scripts(texts)
    assert "const { get: ask, post } = $modules.api;\nasync function render() {\nask(post);\n}\n" in files["page"]
    assert '$load("page");' in files["main"]


def test_the_files_of_two_versions_are_told_apart() -> None:
    old, new = ({"main": 'import("./page.js");', "page": f"export const render = {number};"} for number in (1, 2))
    versions = [
        re.findall(r'version(?: !==| =) "(\w+)"', text) for each in (old, new) for text in join_scripts(each).values()
    ]
    assert versions[0] == versions[1] != versions[2] == versions[3]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('import { page } from "./page.js";', "in a circle: main → page → main"),
        ('import { missing } from "./dom.js";', r"js/dom.js doesn't have missing"),
        ('import { missing } from "./nowhere.js";', r"js/nowhere.js doesn't have nowhere"),
        ('import("./nowhere.js");', r"js/nowhere.js doesn't have nowhere"),
        ('import "./dom.js";', "can't be joined: import"),
        ('import * as dom from "./dom.js";', "can't be joined: import"),
        ("import(name);", "can't be joined: import"),
        ("export default 1;", "can't be joined: export"),
        ("export let changes = 1;", "can't be joined: export"),
        ("export { h };", "can't be joined: export"),
    ],
)
def test_what_cannot_be_joined_is_refused(text: str, problem: str) -> None:
    texts = {
        "main": text,
        "dom": "export const h = 1;",
        "page": 'import { main } from "./main.js";\nexport const page = 1;',
    }
    texts["main"] += "\nexport const main = 1;"
    with pytest.raises(ValueError, match=problem):
        join_scripts(texts)
