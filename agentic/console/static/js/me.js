// What every page needs first (GET /api/me); filled before a page is shown.
export const me = { names: {}, colours: {}, channels: [], local: false, csrf: "" };
