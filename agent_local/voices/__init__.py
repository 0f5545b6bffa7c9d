"""Scripted voices, for trying everything with no key and no network.

The lines are data, under lines/: personas/ (how each agent talks) and themes/ (what there is to say). lines.py reads
them, asking.py reads people's messages, composing.py composes a turn, voice.py is the Model.
"""

from agent_local.voices.voice import ScriptedVoice

__all__ = ["ScriptedVoice"]
