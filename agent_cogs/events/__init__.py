"""The events that turns begin with, and the reasons for which a turn posts nothing. Knows no queue, no cog, no bot.

message      a person or another agent calls the agent       MentionEvent
instruction  the coordinator gives a turn                    InstructionEvent
heartbeat    a check of heartbeat.md is due                  HeartbeatEvent   ─┐
cron         a job of agents.md is due                       CronEvent         │ automation: nobody waits for it,
hook         the agent starts or stops, an event begins      HookEvent         │ silence is a good answer
webhook      a signed request from outside                   WebhookEvent      │
reflection   the coordinator gives an idle task              ReflectionEvent  ─┘
"""
