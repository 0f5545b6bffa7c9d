"""Mistakes in how agents hear and write on Signal."""

from __future__ import annotations

from tests.mutants.mutant import of

LISTENER = "agent_signal/hearing/test_signal_listener.py"
SINK = "agent_signal/test_signal_sink.py"
CLIENT = "agent_signal/rest_api/test_signal_client.py"
RECEIVING = "agent_signal/hearing/test_receiving.py"
CONTACTS = "agent_signal/test_contacts.py"

IN_SIGNAL = (
    *of(
        "agent_signal/hearing/listener.py",
        LISTENER,
        ("if not contacts.allows(envelope.who):", "if False:", "people who are not allowed are not heard"),
        ("heard.entry.id) in self._seen:", "heard.entry.id) in ():", "a message that comes twice is heard once"),
        ("self._account.transcript(chat).deleted:", "():", "a message whose deletion came first is not heard"),
        ("return None if who is self._account.me else who", "return who", "the account does not hear itself"),
        ("or data.view_once:", "or False:", "what is to be seen once is not kept"),
        ("if who.agent is None:\n            await", "if True:\n            await", "an agent is heard as an agent"),
    ),
    *of(
        "agent_signal/contacts.py",
        CONTACTS,
        ("or EVERYBODY in self._allowed or self", "or True or self", "who is not allowed is known as such"),
        (
            "return self.base if self.linked is None else self.linked",
            "return self.base",
            "a linked person is one person",
        ),
        ("self._take_number_from(by_number)", "pass", "a phone number may pass to somebody else"),
    ),
    *of(
        "agent_signal/sink.py",
        SINK,
        ("if not await self._claim(key):", "if False:", "a part that may have been sent is not sent again"),
        ("        if not self._may_post():\n", "        if False:\n", "nothing is posted where it may not"),
        ("may_send=self._may_post,", "", "each try of a send asks whether it may be"),
        ("return self._may_post() and await", "return await", "no reaction in a stopped chat"),
        ("not self._account.contacts.is_allowed(person)", "False", "nobody is written to who is not allowed"),
        ('self._clean(post.text or "")', '(post.text or "")', "no secret is posted"),
    ),
    *of(
        "agent_signal/rest_api/client.py",
        CLIENT,
        ("(is_starting and refused.is_not_yet)", "True", "a send that was refused is not made again"),
        ("if tries > RETRIES or", "if", "a send is made again three times"),
        (
            "isinstance(unreachable, NotConnected) or repeatable",
            "True",
            "a send that may have worked is not made again",
        ),
        ("min(2 * pause, LONGEST_PAUSE)", "pause", "the pauses between tries grow"),
        ("            if not is_wanted():", "            if False:", "a send that is unwanted meanwhile is not made"),
        ("or url != self.file_url(name)", "", "no address but the server's is read"),
    ),
    *of(
        "agent_signal/rest_api/errors.py",
        CLIENT,
        ("self.status == 400 and any(", "any(", "a send is made again after HTTP 400 alone"),
        ('("SocketException", "UnexpectedErrorException")', '("SocketException",)', "both kinds are worth another try"),
    ),
    *of(
        "agent_signal/hearing/receiving.py",
        RECEIVING,
        ("LONGEST_PAUSE = 4.0", "LONGEST_PAUSE = 60.0", "a lost connection is back within five seconds"),
        ("if self._lost_at is None:\n", "if True:\n", "a connection that is lost is said once"),
    ),
)
