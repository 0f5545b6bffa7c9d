// Buttons and dialogs for what an owner does: other pages put them where they belong. Each function returns an element.

// For the header of a channel: start a conversation, who speaks next, end, stop. `channel` is as in /api/me, with
// `running` and `stopped` where they are known.
export function channelActions(channel) {
  return group(`Actions in ${channel.name}`);
}

// Mute and unmute. `agent` is { key, name, muted_until }.
export function agentActions(agent) {
  return group(`Actions for ${agent.name}`);
}

// Raise today's budget. `scope` is { kind: "all" | "agent" | "channel", id, name }; `id` is an agent's key or a channel.
export function budgetActions(scope) {
  return group(`Budget of ${scope.name}`);
}

// Move, skip and add times of today. `slots` are { at, done }, as the schedule has them.
export function scheduleActions(slots) {
  return group(`Today's ${slots.length} scheduled times`);
}

// Pause all bots, or let them go on; for the header of every page.
export function pauseAll() {
  return group("Pause all bots");
}

function group(name) {
  const element = document.createElement("div");
  element.className = "actions";
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", name);
  return element;
}
