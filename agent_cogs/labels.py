"""What a turn is about, in a few words that are never sent to a provider."""

from __future__ import annotations

from agent_context.build import TurnContext


def labels(context: TurnContext) -> dict[str, str]:
    """What the turn is about, for logs and scripted voices; never sent to a provider."""
    target = context.target
    newest = context.window.entries[-1] if context.window.entries else None
    person = context.unheard[-1] if context.unheard else None
    asked = target if context.trigger in ("mention", "reactive", "call") else None
    return {
        "agent": context.me.key,
        "display_name": context.me.display_name,
        "others": ", ".join(context.me.others),
        "theme": context.theme.name,
        "trigger": context.trigger,
        "topic": context.topic or "",
        "round": str(context.round_number),
        "asked": asked.text if asked else "",
        "asker": asked.speaker.name if asked else "",
        "last_speaker": newest.speaker.name if newest else "",
        "last_text": newest.text if newest else "",
        "last_message_id": str(newest.id) if newest else "",
        "human_said": person.text if person else "",
        "human_name": person.speaker.name if person else "",
    }
