"""Mistakes in what reads and exports the record."""

from __future__ import annotations

from tests.mutants.mutant import of

LISTS = "agent_store/queries/test_lists.py"
COSTS = "agent_store/queries/test_costs_and_forecast.py"
TURN = "agent_store/queries/test_one_turn.py"
PAGES = "agent_store/export/test_pages.py"
MARKDOWN = "agent_store/export/test_discord_html.py"
RECORDER = "agent_store/test_recorder.py"
FORGETTING = "agent_store/test_forgetting.py"
RETENTION = "agent_store/test_retention.py"
MIGRATIONS = "agent_store/test_migrations.py"
REMOVING = "agent_store/memories/test_memory_removing.py"
MEMORY_ROWS = "agent_store/memories/test_memory_rows.py"
LOST = "agent_store/memories/test_lost_profiles.py"
RECALL = "agent_store/memories/test_recall.py"

IN_RECORD = (
    *of(
        "agent_store/database.py",
        FORGETTING,
        ('"PRAGMA secure_delete = ON"', '"PRAGMA secure_delete = OFF"', "removed words are overwritten"),
    ),
    *of(
        "agent_store/migrations.py",
        MIGRATIONS,
        ('connection.execute("ROLLBACK")', 'connection.execute("COMMIT")', "a migration that fails changes nothing"),
        ("if len(rows) > len(ours):", "if False:", "a file of a newer program is refused"),
        ("copies(path)[:-COPIES_KEPT]", "copies(path)[:-1]", "three copies are kept"),
    ),
    *of(
        "agent_protocol/record/reader.py",
        RECORDER,
        ("if _order(last) <= _order(newest) else", "if True else", "a Redis with an earlier clock is read whole"),
        ("n - position.last_n - 1) if", "n - position.last_n) if", "only what is missing is counted as lost"),
        ("| gone\n", "\n", "a stream that was emptied gets its group again"),
        ("if stream in self._words])", "if False])", "words leave Redis once they are recorded"),
    ),
    *of(
        "agent_store/writing.py",
        RECORDER,
        ("if await read_positions(db) != known:", "if False:", "a paused recorder writes over no successor"),
        ("places.pop(UNDONE_BY.get(sql, \"\"), None)", "pass", "a reaction given again is there"),
        ('await db.execute("ROLLBACK TO entry")', "raise", "an entry that does not fit leaves the others"),
    ),
    *of(
        "agent_store/recorder.py",
        RECORDER,
        ("if identity(self._path) != opened:", "if False:", "a file that was deleted is begun again"),
        ("if problem == self.problem else", "if False else", "a problem that lasts is one line"),
    ),
    *of(
        "agent_store/recorder.py",
        FORGETTING,
        ("self._unwiped = self._unwiped or removed > 0", "pass", "the log beside the file is emptied after a deletion"),
        ("user_id, at / 1000, chats)", "user_id, at, chats)", "what is said after /forget me is recorded"),
    ),
    *of(
        "agent_store/memories/index.py",
        REMOVING,
        ("await self._merge(-MERGED_PAGES)", "pass", "a deleted word leaves the index's segments"),
        ("for statement in (*STRAY, *MISSING, *TRIGGERS):", "for statement in TRIGGERS:", "an index is put right"),
    ),
    *of(
        "agent_store/memories/removing.py",
        REMOVING,
        ("unasked = 1 AND at <= ?", "at <= ?", "a refusal of unasked messages outlives its person's request"),
    ),
    *of(
        "agent_store/memories/rows.py",
        MEMORY_ROWS,
        ("by = '{PERSON}' AND upto >= ?4", "by = '{PERSON}' AND upto < 0", "a person's own list stays"),
    ),
    *of(
        "agent_store/memories/rows.py",
        LOST,
        ("(profiles.upto > 0 OR excluded.at > profiles.at)", "1", "a list that was being made brings nothing back"),
        ("(OUTDATED_PROFILE, [edit]), ", "", "what is edited out leaves a model's list"),
        ("known.upto >= gone.message_id", "1", "a message that a list does not know takes nothing from it"),
    ),
    *of(
        "agent_store/memories/removing.py",
        LOST,
        ('f"gone.message_id {these}"', '"?1 IS NULL"', "a deleted message takes a model's list along"),
        ('"gone.channel_id = ? AND gone.message_id < ?"', '"? < 0 AND ? < 0"', "a deleted channel does"),
    ),
    *of(
        "agent_store/retention.py",
        LOST,
        ("    lost_profiles(_LAST_THERE),\n", "", "topics end with the last message of their channel"),
        (" AND kept.message_id BETWEEN ?1 AND known.upto)", ")", "newer messages are no place of a list's topics"),
    ),
    *of(
        "agent_store/memories/recall.py",
        RECALL,
        ("FLOOR = 0.4", "FLOOR = 0.0", "a question off the subject finds nothing"),
    ),
    *of(
        "agent_store/forgetting.py",
        FORGETTING,
        ("if quoted.message_id in self.messages:", "if False:", "late words do not bring a deleted message back"),
        ("quoted.message_id < id_at(asked_at)", "words.at <= asked_at", "an old message is not recorded again later"),
        ("(*quoting, *led_to, *there)", "(*quoting, *there)", "the prompt that led to a deleted post goes with it"),
        (
            'return record.model_copy(update={"asked_by": None',
            'return record.model_copy(update={"v": 1',
            "a late record brings no id back",
        ),
    ),
    *of(
        "agent_store/retention.py",
        RETENTION,
        ("_least(ages.prompts, ages.days)", "ages.days", "prompts go after their own days"),
        ("return free > PAGES", "return False", "the file gives all of its free room back"),
        ("return deleted.rowcount >= ROWS", "return False", "all that is too old goes, not the first rows alone"),
    ),
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
        ("*imported, *of_replays", "*imported", "replays are in the day's costs"),
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
