// Asks at once for the script of the page at this address, and for what the page gets first. The server puts this into
// the HTML itself, so that the browser doesn't have to wait for a script first. An address here that isn't exactly what
// the page passes to get() only costs a request.
(() => {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [named, id, ...more] = path.split("/").filter(Boolean);
  const data = {
    overview: () => ["live/channels", "overview"],
    live: () => ["live/channels", ...(!id ? ["live/channels/first"] : /^\d+$/.test(id) ? [`live/channels/${id}`] : [])],
    schedule: () => ["schedule", "actions"],
    rooms: () => ["rooms"],
    room: () => (id ? [`rooms/${id}`, "live/channels"] : []),
    arena: () => (search ? [] : ["arena"]),
    turns: () => ["turns/choices", ...(search ? [] : ["turns", "turns/over-time"])],
    turn: () => (id && more.length && !search ? [`turns/${id}/${more[0]}`] : []),
    conversations: () => (search ? [] : ["conversations"]),
    conversation: () => (id ? [`conversations/${id}`] : []),
    cost: () => ["budgets", ...(search ? [] : ["costs?days=30"])],
    agents: () => ["agents", "orders"],
    agent: () => (id ? [`agents/${id}`, `arena/${id}`] : []),
  };
  const page = Object.hasOwn(data, named || "") ? named : document.documentElement.dataset.first;
  const ask = (href, more) => document.head.append(Object.assign(document.createElement("link"), { href, ...more }));
  ask(`js/${page}.js`, { rel: "modulepreload" });
  for (const address of ["me", ...data[page]()]) ask(`api/${address}`, { rel: "preload", as: "fetch", crossOrigin: "anonymous" });
})();
