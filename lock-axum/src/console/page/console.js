'use strict';
// The page of the console. Everything from the store becomes text, never markup.

const base = new URL('.', document.currentScript.src);
const $ = (id) => document.getElementById(id);
const VIEWS = ['held', 'waiting', 'heat', 'history', 'stores', 'doctor'];
const FILTERED = ['held', 'waiting'];
let view = '';
let source = null;
let retry = 0;

// Text

// Characters that cannot be seen or that reverse the text: a key must not look like another one. Also spaces that HTML
// drops, and backslashes that look like the beginning of a replacement.
const UNSEEN = /^ | (?= |$)|\\(?=u\{)|(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu;
const shown = (text) => text.replace(UNSEEN, (char) => '\\u{' + char.codePointAt(0).toString(16) + '}');

const two = (number) => String(Math.floor(number)).padStart(2, '0');

function span(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1000) return `${ms > 0 && ms < 10 ? ms.toFixed(2) : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two((s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${two((s / 3600) % 24)} h`;
}

const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB');
const many = (count, one, more) => `${count.toLocaleString('en')} ${count === 1 ? one : more}`;
const words = (text) => String(text).replaceAll('_', ' ');

function person(record) {
  if (!record) return 'a client of another library';
  const name = [record.service, record.label].filter(Boolean).join(' · ');
  return shown(`${name ? name + ', ' : ''}${record.host} pid ${record.pid}`);
}

function mode(mode) {
  if (mode === 'exclusive') return '';
  if (mode === 'shared') return 'read';
  return mode.permit ? `permit of ${mode.permit.of}` : words(mode);
}

// Elements

function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

const badge = (text, kind = '') => make('span', `badge ${kind}`, text);

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// The style cuts a long key, and shows all of it while it has the focus.
function keyCell(cell, key, ...badges) {
  const name = make('bdi', 'key', shown(key));
  name.title = name.textContent;
  if (name.textContent.length > 100) name.tabIndex = 0;
  cell.replaceChildren(name, ...badges.filter(Boolean).flatMap((text) => [' ', badge(text)]));
}

function personCell(cell, record, own, ...badges) {
  const all = badges.filter(Boolean).flatMap((text) => [' ', badge(text, text === 'kept' ? 'warn' : '')]);
  if (!record) return cell.replaceChildren(badge('another library'), ...all);
  const name = [record.service, record.label].filter(Boolean).join(' · ');
  const where = shown(`${record.host} pid ${record.pid}`) + (own ? ' · this process' : '');
  cell.replaceChildren(make('bdi', 'who', shown(name) || where), ...all, ...(name ? [make('bdi', 'where', where)] : []));
}

function timeCell(cell, ms, text) {
  let time = cell.querySelector('time');
  if (!time) cell.replaceChildren((time = make('time')));
  const date = new Date(ms);
  if (!isNaN(date)) time.dateTime = date.toISOString();
  time.title = isNaN(date) ? '' : date.toLocaleString();
  put(time, text);
}

// Shows `items` as the rows of a table. A row whose item has not changed is not touched, so that it keeps the focus, the
// selection and its place. A column is [name, what its cell depends on, how it is drawn, its class].
function fill(id, items, idOf, columns, tag) {
  const body = $(id).tBodies[0];
  const rows = (body.rowsById ??= new Map());
  const focus = document.activeElement;
  const wanted = new Map(items.map((item) => [idOf(item), item]));
  for (const [name, row] of rows) {
    if (!wanted.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
  let place = body.firstElementChild;
  for (const [name, item] of wanted) {
    let row = rows.get(name);
    if (!row) {
      row = make('tr');
      row.setAttribute('role', 'row');
      row.append(...columns.map(([label, , , kind], at) => {
        const cell = make(at === 0 ? 'th' : 'td', kind);
        if (at === 0) cell.scope = 'row';
        cell.setAttribute('role', at === 0 ? 'rowheader' : 'cell');
        cell.dataset.label = label;
        return cell;
      }));
      row.drawn = [];
      rows.set(name, row);
    }
    row.item = item;
    tag?.(row, item);
    columns.forEach(([, depends, draw], at) => {
      const on = depends(item);
      if (row.drawn[at] === on) return;
      row.drawn[at] = on;
      if (draw) draw(row.cells[at], item);
      else row.cells[at].textContent = on;
    });
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
  if (document.activeElement === focus || !body.parentElement.checkVisibility()) return;
  // The row was moved, or is gone.
  (focus.isConnected ? focus : $(id).parentElement).focus({ preventScroll: true });
}

const tagged = (row, { lock, holder }) => {
  row.dataset.key = lock.key;
  if (holder) row.dataset.id = holder.id;
};

// Views

const shows = {
  held(state) {
    const items = state.locks.flatMap((lock) => lock.holders.map((holder) => ({ lock, holder })));
    const own = ownBy(state);
    fill('table-held', items, ({ lock, holder }) => `${holder.id} ${lock.key}`, [
      ['Key', ({ lock }) => mode(lock.mode), (cell, { lock }) => keyCell(cell, lock.key, mode(lock.mode))],
      ['Held by', ({ holder }) => JSON.stringify([holder.record, holder.kept, own(holder.record)]), (cell, { holder }) =>
        personCell(cell, holder.record, own(holder.record), holder.kept && 'kept')],
      ['Held for', ({ holder }) => heldFor(holder), (cell, { holder }) => timeCell(cell, since(holder), heldFor(holder))],
      ['Lease', ({ holder }) => left(holder), leaseCell],
      ['Waiting', ({ lock }) => lock.waiting ? String(lock.waiting) : '–', null, 'number'],
      ['', () => state.read_only, releaseCell, 'action'],
    ], tagged);
    const told = [...unsure(state)];
    if (state.total === 0) told.push($('filter').value ? `No key ${state.truncated ? 'in this list' : 'that is held'} begins so.` : 'Nothing is held.');
    if (state.locks.length < state.total) told.push(`Shown are the ${many(state.locks.length, 'key', 'keys')} held longest, of ${counted(state)}. Filter for the others.`);
    const more = state.locks.filter((lock) => lock.holding > lock.holders.length).length;
    if (more) told.push(`${many(more, 'key has', 'keys have')} more holders than are shown.`);
    put($('note-held'), told.join(' '));
  },

  waiting(state) {
    const items = state.locks.filter((lock) => lock.waiting > 0).flatMap((lock) => {
      const first = lock.waiters.map((waiter, at) => ({ lock, waiter, at }));
      const more = lock.waiting - lock.waiters.length;
      return more > 0 ? [...first, { lock, more, at: first.length }] : first;
    });
    const own = ownBy(state);
    fill('table-waiting', items, ({ lock, at }) => `${at} ${lock.key}`, [
      ['Key', () => '', (cell, { lock }) => keyCell(cell, lock.key)],
      ['Place', ({ lock, at, more }) => more ? '' : `${at + 1} of ${lock.waiting}`],
      ['Waits', ({ waiter, more }) => JSON.stringify([waiter, more, waiter && own(waiter.record)]), (cell, { waiter, more }) =>
        more ? put(cell, `and ${more} more`) : personCell(cell, waiter.record, own(waiter.record), mode(waiter.mode))],
      ['Since', ({ waiter }) => ago(waiter), agoCell('waiter')],
      ['For', ({ lock }) => lock.holders.length ? person(lock.holders[0].record) + (lock.holding > 1 ? ` and ${lock.holding - 1} more` : '') : ''],
    ], tagged);
    const keys = many(new Set(items.map(({ lock }) => lock.key)).size, 'key', 'keys');
    const cut = items.reduce((sum, { more }) => sum + (more ?? 1), 0) < state.waiting;
    const told = [...unsure(state)];
    if (state.waiting === 0) told.push('Nothing waits.');
    else if (cut) told.push(`${many(state.waiting, 'waiter', 'waiters')}. Shown are the ${keys} with the most. Filter for the others.`);
    else if (state.waiting) told.push(`${many(state.waiting, 'waiter', 'waiters')} for ${keys}.`);
    put($('note-waiting'), told.join(' '));
  },

  heat(state) {
    const number = (name, value) => [name, value, null, 'number'];
    fill('table-heat', state.heat, (heat) => heat.template, [
      ['Template', (heat) => shown(heat.template)],
      number('Granted', (heat) => heat.granted.toLocaleString('en')),
      number('Refused', (heat) => heat.refused ? `${heat.refused.toLocaleString('en')} (${Math.round((100 * heat.refused) / (heat.granted + heat.refused))} %)` : '0'),
      number('Wait, half', (heat) => span(heat.waited_p50_ms)),
      number('Wait, 99 %', (heat) => span(heat.waited_p99_ms)),
      number('Hold, half', (heat) => span(heat.held_p50_ms)),
      number('Hold, 99 %', (heat) => span(heat.held_p99_ms)),
    ]);
    put($('note-heat'), past(state, state.heat));
  },

  history(state) {
    const name = ({ lock }) => lock ? [lock.key, ...lock.more].map((key) => inside(key, state.namespace)).join(', ') : '';
    const what = ({ event }) => EVENTS[event] ?? [words(event)];
    // Another process, and the next journal, count their events from 0 again.
    fill('table-history', state.history, (event) => `${state.host} ${state.pid} ${state.since_ms} ${event.seq}`, [
      ['When', () => '', (cell, event) => timeCell(cell, event.at_ms, `${clock(event.at_ms)}.${String(event.at_ms % 1000).padStart(3, '0')}`)],
      ['Event', () => '', (cell, event) => cell.replaceChildren(badge(...what(event)))],
      ['Key', () => '', (cell, event) => keyCell(cell, name(event), event.lock?.label && shown(event.lock.label))],
      ['Details', () => '', (cell, event) => put(cell, what(event)[2]?.(event) ?? '')],
    ]);
    put($('note-history'), past(state, state.history));
  },

  stores(state) {
    const { ping } = state;
    const rows = [
      ['Store', state.store],
      ['Namespace', state.namespace || 'none'],
      ['Keys held', state.total === null ? 'not known' : counted(state)],
      ['Waiters', state.waiting === null ? 'not known' : many(state.waiting, 'waiter', 'waiters')],
      ['Serves locks', ping ? (ping.servers > 1 ? `${ping.serving} of ${ping.servers} servers do` : 'yes') : state.error ? 'no' : 'unknown: the store has no ping'],
      ['Round trip', ping ? span(ping.round_trip_us / 1000) : '–'],
      ['Degraded', ping?.degraded.length ? ping.degraded.join('; ') : ping ? 'nothing' : '–'],
      ['Error', state.error ?? 'none'],
      ['This process', `${state.host} pid ${state.pid}${state.service ? ` (${state.service})` : ''}`],
      ['A look takes', span(state.look_ms)],
    ];
    fill('table-stores', rows, ([what]) => what, [['What', ([what]) => what], ['Value', ([, value]) => shown(value)]]);
  },

  doctor() {},
};

const ownBy = ({ host, pid }) => (record) => record !== null && record.pid === pid && record.host === host;

// Why the list is missing, cut or old.
function* unsure(state) {
  if (state.unlisted) yield 'This store cannot list its locks: ask for one key with lockctl show.';
  else if (state.total === null) yield 'Not known: the locks could not be listed.';
  if (state.truncated) yield 'This list ends after 10,000 keys: ask for any other key with lockctl show.';
}

// The moment that the page shows: that of the last list, if the store does not answer.
const moment = () => latest.error && latest.seen_ms ? latest.seen_ms : latest.time_ms + Date.now() - latest.at;
const ago = (person) => person?.record ? `${span(Math.max(0, moment() - person.record.since_ms))} ago` : '–';
const agoCell = (who) => (cell, { [who]: person }) => person?.record ? timeCell(cell, person.record.since_ms, ago(person)) : put(cell, '–');
// Not every store keeps when a lock was granted.
const since = ({ held_since_ms, record }) => held_since_ms ?? record?.since_ms;
const heldFor = (holder) => {
  const at = since(holder);
  if (at === undefined || holder.kept) return '–';
  const passed = span(Math.max(0, moment() - at));
  return holder.held_since_ms === null ? `asked ${passed} ago` : passed;
};
const left = ({ remaining_ms }) => remaining_ms === null ? null : Math.max(0, remaining_ms - (moment() - latest.seen_ms));

const counted = (state) => `${many(state.total, 'key', 'keys')}${state.truncated ? ' or more' : ''}`;
const inside = (key, namespace) => namespace && key.startsWith(namespace + ':') ? key.slice(namespace.length + 1) : key;

// What the journal covers.
function past(state, entries) {
  const began = Math.max(state.since_ms, state.time_ms - 15 * 60 * 1000);
  const what = `Only this process (${shown(state.host)} pid ${state.pid}), from ${clock(began)} on: the last quarter of an hour at most.`;
  return entries.length ? what : `Nothing happened yet. ${what}`;
}

// What happened, how bad that is, and the details.
const EVENTS = {
  granted: ['granted', '', (event) => event.waited_ms ? `after ${span(event.waited_ms)}` : 'at once'],
  released: ['released', '', (event) => `held for ${span(event.held_ms)}`],
  refused: ['refused', 'warn', (event) => `${words(event.why)}${event.waited_ms ? ` after ${span(event.waited_ms)}` : ''}${event.holder ? `; held by ${person(event.holder)}` : ''}`],
  cancelled: ['cancelled', '', (event) => `after ${span(event.waited_ms)}`],
  lost: ['lost', 'bad', (event) => `${words(event.reason)}, held for ${span(event.held_ms)}`],
  endangered: ['renewal late', 'warn', (event) => `${span(event.left_ms)} left`],
  held_long: ['held long', 'warn', (event) => `for ${span(event.held_ms)} already`],
  release_failed: ['release failed', 'warn'],
  store_failed: ['store failed', 'bad', (event) => shown(event.error)],
  bypassed: ['ran without lock', 'bad', (event) => shown(event.template)],
  store_evicted: ['store evicted keys', 'bad', (event) => many(event.keys, 'key', 'keys')],
  missed: ['events missed', '', (event) => `${many(event.count, 'event', 'events')}: more happened than this page can follow`],
};

function leaseCell(cell, { holder }) {
  if (holder.remaining_ms === null) return cell.replaceChildren(badge('no end', 'warn'));
  if (!cell.querySelector('progress')) {
    const bar = make('progress');
    bar.setAttribute('aria-hidden', 'true');
    cell.replaceChildren(bar, make('span', 'left'));
  }
  const [bar, text] = cell.children;
  bar.max = Math.max(bar.max, holder.remaining_ms, 1);
  bar.value = left(holder);
  put(text, span(left(holder)));
}

function releaseCell(cell, { lock }) {
  const row = cell.parentElement;
  if (latest.read_only) return cell.replaceChildren();
  const button = make('button', 'release', 'Release…');
  button.type = 'button';
  button.setAttribute('aria-label', `Release ${shown(lock.key)} by force`);
  button.addEventListener('click', () => openRelease(row.item));
  cell.replaceChildren(button);
}

// Release by force

let target = null;

function openRelease({ lock, holder }) {
  target = { key: lock.key, id: holder.id };
  put($('release-key'), shown(lock.key));
  put($('release-holder'), person(holder.record) + (holder.kept ? ' (kept after its release)' : ''));
  put($('release-grant'), holder.id);
  for (const id of ['typed-key', 'reason']) $(id).value = '';
  answer('', '');
  $('confirm').ariaDisabled = null;
  put($('cancel'), 'Cancel');
  $('release').showModal();
}

function answer(text, kind) {
  put($('release-answer'), text);
  $('release-answer').dataset.kind = kind;
}

async function release(event) {
  event.preventDefault();
  // A button that is disabled would lose the focus.
  if ($('confirm').ariaDisabled) return;
  $('confirm').ariaDisabled = 'true';
  answer('Asking the store…', '');
  const mine = target;
  const body = JSON.stringify({ ...target, typed_key: $('typed-key').value, reason: $('reason').value });
  const headers = { 'content-type': 'application/json' };
  const [status, told] = await ask('api/force-release', { method: 'POST', body, headers });
  // Meanwhile the dialog may be about another lock.
  if (target !== mine) return;
  if (status === 200 && typeof told.released === 'boolean') {
    answer(told.released ? 'The lock was taken from its holder.' : 'This holder was no longer there: nothing was done.', told.released ? 'done' : 'warn');
    put($('cancel'), 'Close');
    $('cancel').focus();
    return;
  }
  // The release goes on when the connection is lost or a proxy gives up.
  const refused = (status >= 400 && status < 500) || status === 501;
  answer(refused ? `Not released: ${told.detail}.` : `It is not known whether the lock was released; look at the list (${told.detail}).`, 'bad');
  $('confirm').ariaDisabled = null;
}

// Returns the status (0 without an answer) and the data, whose `detail` says why the request failed.
async function ask(path, options = {}) {
  // A page of another site cannot send this header.
  const headers = { 'x-lock-console': '1', ...options.headers };
  const got = await fetch(new URL(path, base), { ...options, headers }).catch(() => ({ status: 0 }));
  const told = await got.json?.().catch(() => null);
  return [got.status, { detail: got.status ? `the server answered ${got.status}` : 'the connection was lost', ...told }];
}

// The doctor runs only when its view opens: it takes a while.
async function doctor() {
  const button = $('doctor-again');
  button.ariaDisabled = 'true';
  put($('note-doctor'), 'Looking…');
  const [, told] = await ask('api/doctor');
  if (told.findings) {
    fill('table-doctor', told.findings.map((finding, at) => ({ ...finding, at })), ({ rule, about, at }) => `${at} ${rule} ${about}`, [
      ['Severity', ({ severity }) => severity, (cell, { severity }) => cell.replaceChildren(badge(severity, { danger: 'bad', warning: 'warn' }[severity]))],
      ['Rule', ({ rule }) => rule],
      ['About', ({ about }) => shown(about) || 'the store'],
      ['Found', ({ found }) => shown(found)],
      ['What to do', ({ advice }) => shown(advice)],
    ]);
    put($('note-doctor'), `${told.findings.length ? many(told.findings.length, 'finding', 'findings') : 'Nothing was found'} at ${clock(told.time_ms)}.`);
  } else put($('note-doctor'), `The doctor could not look: ${told.detail}.`);
  button.ariaDisabled = null;
}

// The state, live

// The last state, when it arrived, and for which view.
let latest = { read_only: true };
let watchdog = 0;

function status(text, kind) {
  put($('status'), text);
  $('status').dataset.state = kind;
}

function show(state) {
  latest = Object.assign(state, { at: Date.now(), view });
  const old = state.seen_ms && state.time_ms - state.seen_ms > 2000 ? ` · as of ${clock(state.seen_ms)}` : '';
  const count = (number) => number === null ? '' : `${number.toLocaleString('en')}${state.truncated ? '+' : ''}`;
  const service = state.service ? ` · service ${state.service}` : '';
  put($('where'), shown(`${state.store}${state.namespace ? ` · namespace ${state.namespace}` : ''}${service}${old}`));
  put($('count-held'), count(state.total));
  put($('count-waiting'), count(state.waiting));
  shows[view](state);
  if (!state.error) return status('live', 'live');
  status(`the locks could not be listed: ${shown(state.error)}${asOf()}`, 'bad');
}

const asOf = () => latest.seen_ms ? `; the locks are those of ${clock(latest.seen_ms)}` : '';

// Ages grow, also without a new state. Without a connection they stand still.
setInterval(() => $('status').dataset.state === 'live' && latest.view === view && shows[view](latest), 1000);

// Shows that the data are old until a state arrives.
function reconnect() {
  status(document.hidden ? 'paused' : `connecting${asOf()}`, 'wait');
  connect();
}

function connect() {
  clearTimeout(retry);
  clearTimeout(watchdog);
  source?.close();
  source = null;
  // Nobody looks at a tab in the background.
  if (document.hidden) return;
  const url = new URL('api/events', base);
  url.search = new URLSearchParams({ view, prefix: FILTERED.includes(view) ? $('filter').value : '' });
  const mine = (source = new EventSource(url));
  const gone = (what) => status(`${what}, trying again${asOf()}`, 'bad');
  // A state arrives every 5 s, or the `end` event after 10 s. A phone without a network reports no error for minutes.
  const watch = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => {
      gone('connection lost');
      connect();
    }, 15_000);
  };
  watch();
  let heard = false;
  const on = (name, then) => mine.addEventListener(name, (event) => mine === source && then(event));
  on('state', (event) => {
    watch();
    heard = true;
    show(JSON.parse(event.data));
  });
  // A stream lasts a few seconds, so that the server can shut down.
  on('end', () => {
    if (!heard) status(`the store has not answered yet${asOf()}`, 'wait');
    connect();
  });
  on('error', () => {
    const refused = mine.readyState === EventSource.CLOSED;
    gone(refused ? 'the server does not show the locks' : 'connection lost');
    if (refused) retry = setTimeout(connect, 2000);
  });
}

function open() {
  const wanted = location.hash.slice(1);
  if (view && !VIEWS.includes(wanted)) return;
  view = VIEWS.includes(wanted) ? wanted : 'held';
  for (const name of VIEWS) $(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.hash === `#${view}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  $('filter-line').hidden = !FILTERED.includes(view);
  document.title = `${$(`title-${view}`).textContent} · Locks`;
  reconnect();
  if (view === 'doctor') doctor();
}

let typing = 0;
$('filter').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(reconnect, 150);
});
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  $('main').focus();
});
$('release-form').addEventListener('submit', release);
$('cancel').addEventListener('click', () => $('release').close());
$('doctor-again').addEventListener('click', (event) => event.target.ariaDisabled || doctor());
document.addEventListener('visibilitychange', reconnect);
window.addEventListener('hashchange', open);
open();
