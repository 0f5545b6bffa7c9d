"""Texts, and the code blocks that the console and an exported page show in them."""

CODE_BLOCKS: dict[str, list[str]] = {
    "x\n```js\na\n```\ny": ["a"],
    "a ```b``` c": ["b"],
    "````md\n```js\na\n```\n````\ny": ["```js\na\n```"],
    "```\na\n````": ["a"],
    "````md\nnot closed\n```": ["`md\nnot closed"],
    "~~~\na ~~b~~\n\n  c\n~~~\n~~gone~~": ["a ~~b~~\n\n  c"],
    "~~~c++\n```\na\n~~~~": ["```\na"],
    "```\n~~~\na\n~~~\n```\n~~~\nb\n~~~": ["~~~\na\n~~~", "b"],
    "a ~~~b~~~ c": [],
    "~~~\nnot closed": [],
    "``````": [],
}
