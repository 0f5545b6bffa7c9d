"""The form of an answer, in words: what the model reads beside the JSON schema of decision.py."""

CONTRACT = """
One JSON object, nothing around it:

{"skip": false, "text": "message or null", "generate_image": false, "image_prompt": "prompt or null",
 "react_emoji": "emoji or null", "react_to_message_id": "id or null", "end_conversation": false,
 "topic": "topic or null"}

- skip: stay silent, with no reaction either.
- text: your post in Discord's markdown, as people chat: short, no headings, no sign-off; @Name addresses somebody.
- generate_image, image_prompt: true and a full description, where a picture says more.
- react_emoji, react_to_message_id: one emoji on a message above, seldom.
- end_conversation: the topic is exhausted.
- topic: only to open a conversation.
"""

REPAIR = (
    "Your last answer could not be read ({reason}). "
    "Answer once more, with nothing but the JSON object that was asked for."
)
