"""Mistakes in what reads and exports the record."""

from __future__ import annotations

from tests.mutants.mutant import of

LISTS = "agent_store/queries/test_lists.py"
COSTS = "agent_store/queries/test_costs_and_forecast.py"
TURN = "agent_store/queries/test_one_turn.py"
PAGES = "agent_store/export/test_pages.py"
MARKDOWN = "agent_store/export/test_discord_html.py"

IN_RECORD = (
    *of(
        "agent_store/queries/pages.py",
        LISTS,
        ("cursor(items[count - 1])", "cursor(items[-1])", "no item falls between two pages"),
    ),
    *of(
        "agent_store/queries/turns.py",
        LISTS,
        ("(turns.at, turns.seq) < (?, ?)", "(turns.at, turns.seq) <= (?, ?)", "no item is on two pages"),
        ('"turns.at < ?": wanted.until', '"turns.at <= ?": wanted.since', "a range of times has an end"),
        ("next=(last[0], last[1]) if last else None", "next=None", "a search goes on behind what a page has searched"),
        ('.replace("%", "\\\\%")', "", "a percent sign in a search is one"),
        ("AND outcome <> 'posted' ORDER", "ORDER", "only silent turns are named as skipped", TURN),
    ),
    *of(
        "agent_store/queries/costs.py",
        COSTS,
        ("turns.day = old.day AND turns.agent", "turns.agent", "an agent's other days do not hide an imported one"),
        ("datetime.fromtimestamp(at, zone)", "datetime.fromtimestamp(at)", "hours are those of the owner's clock"),
    ),
    *of(
        "agent_store/queries/forecast.py",
        COSTS,
        ("min(max(spent / by_now, SLOWEST), FASTEST)", "spent / by_now", "a burst does not go on for ever"),
        ("turns.at < cuts.value", "turns.at > cuts.value", "the usual share is that of the time before"),
    ),
    *of(
        "agent_store/export/discord_html.py",
        MARKDOWN,
        ("<code>{}</code></pre>\").format(fence[2]", "<code>%s</code></pre>\") % Markup(fence[2]", "code is escaped"),
        ("_lines(whole) if linked else", "", "a link has no link in it"),
        ("return escape(text).replace", "return Markup(text).replace", "what people wrote is escaped"),
    ),
    *of(
        "agent_store/export/render.py",
        PAGES,
        ("autoescape=True", "autoescape=False", "names and topics are escaped"),
        ('lines += [f"> {line}"', 'lines += [f"{line}"', "no text passes for another message"),
    ),
    *of(
        "agent_store/export/story.py",
        PAGES,
        ("if post.picture in PICTURES else None", "if post.picture else None", "a page has no picture of another kind"),
        ("        if post.deleted_at is None\n", "", "a deleted post is not exported"),
    ),
    *of(
        "agent_store/import_costs.py",
        "agent_store/test_import_costs.py",
        ("(agent, day) not in recorded and", "", "a day of the record is not imported"),
        ("DO UPDATE SET amount = excluded.amount", "DO UPDATE SET amount = amount + excluded.amount", "once is once"),
    ),
)  # fmt: skip
