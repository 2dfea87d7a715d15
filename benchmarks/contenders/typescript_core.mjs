// The TypeScript core on Node, over a child process or (with the package ws) over a WebSocket. It does what drive.py and
// service.py do for Python; the messages are those of workload.py.
//
// node typescript_core.mjs client|serve ORDER
// MCPL_TS_CORE: the index.js of a build of the TypeScript core. MCPL_TS_WS: wrapper.mjs of the package ws.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { pathToFileURL } from 'node:url';
import { isDeepStrictEqual } from 'node:util';

// The last line is the one that is shown; by itself Node ends with its version.
process.on('uncaughtException', (error) => {
  process.stderr.write(`${error?.stack}\n${error}\n`, () => process.exit(1));
});

const [mode, text] = process.argv.slice(2);
const order = { link: 'stdio', seconds: 0.5, warm_up: 0.25, stalled_bytes: 2e8, settle: 15, gate: '', cpus: [], ...JSON.parse(text) };
const load = (name) => import(pathToFileURL(fs.realpathSync(process.env[name])));
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1e3));
// It offers no flow control, so the loop gets to read and write now and then. The style "timer" lets it by a timer, which
// waits for a millisecond at least.
const turn = () => (order.style === 'timer' ? sleep(0) : new Promise((resolve) => setImmediate(resolve)));

const SMALL = { sessionId: 'sess-0123456789abcdef', channel: 'general', seq: 12345, text: 'hello world, how are you?' };
const WIDTHS = { A: 1, B: 64, E: 16 };
const LARGE = { D1: 1 << 20, D16: 1 << 24 };
const FLOOD_ROUND = 500;
const NOTE_BYTES = 1000;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function large(size) {
  let block = '';
  for (let i = 0; i < 8192; i++) block += ALPHABET[(i * 7919) % 64];
  return { data: block.repeat(Math.floor(size / 8192) + 1).slice(0, size) };
}

// ------------------------------------------------------------------ the server

async function answer(connection) {
  let counted = 0;
  let total = 0;
  let open = false;
  const count = (params) => {
    counted++;
    total += params.seq;
  };
  for (;;) {
    let message;
    try {
      message = await connection.nextMessage();
    } catch {
      return;
    }
    if (message.type === 'request') {
      const { id, method, params } = message.request;
      connection.sendResponse(id, method === 'echo' ? params : { n: counted, total });
    } else if (message.notification.method === 'count') {
      count(message.notification.params);
    } else {
      while (!open) {
        open = fs.existsSync(order.gate);
        if (!open) await sleep(0.05);
      }
      count(message.notification.params);
    }
  }
}

// ------------------------------------------------------------------ the meter

const LINUX = process.platform === 'linux';
const own = () => process.cpuUsage();
function processor(pid) {
  const { user, system } = own();
  if (!LINUX) return { own: (user + system) / 1e6, other: 0 };
  // Nanoseconds that each thread ran; finer than the ticks of /proc/PID/stat.
  let other = 0;
  for (const thread of fs.readdirSync(`/proc/${pid}/task`)) {
    other += Number(fs.readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
  }
  return { own: (user + system) / 1e6, other: other / 1e9 };
}
function memory(pid, name) {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  return (Number(found[1]) * 1024) / 1e6;
}
function meter(pid) {
  const cpu = processor(pid);
  const began = performance.now();
  return (operations) => {
    const seconds = (performance.now() - began) / 1e3;
    const now = processor(pid);
    const used = now.own - cpu.own + now.other - cpu.other;
    const rate = { operations, per_second: operations / seconds };
    return LINUX ? { ...rate, cpu_us: (used / operations) * 1e6 } : rate;
  };
}
function percentiles(milliseconds) {
  const ordered = Float64Array.from(milliseconds).sort();
  const count = ordered.length;
  return {
    p50_us: ordered[count >> 1] * 1e3,
    p99_us: ordered[Math.min(count - 1, Math.floor((count * 99) / 100))] * 1e3,
  };
}

// ------------------------------------------------------------------ the client

function check(right, what) {
  if (!right) throw new Error(`wrong answer: ${what}`);
}

async function checkEcho(connection, params) {
  check(isDeepStrictEqual(await connection.sendRequest('echo', params), params), 'echo');
}

async function echoes(connection, seconds) {
  const latencies = [];
  const end = performance.now() + seconds * 1e3;
  const oneAfterTheOther = async () => {
    let began = performance.now();
    while (began < end) {
      const result = await connection.sendRequest('echo', SMALL);
      check(result.seq === SMALL.seq, 'echo');
      const ended = performance.now();
      latencies.push(ended - began);
      began = ended;
    }
  };
  await Promise.all(Array.from({ length: WIDTHS[order.scenario] }, oneAfterTheOther));
  return latencies;
}

async function flood(connection, seconds, before) {
  let sent = 0;
  const end = performance.now() + seconds * 1e3;
  while (performance.now() < end) {
    for (let i = 0; i < FLOOD_ROUND; i++) connection.sendNotification('count', SMALL);
    sent += FLOOD_ROUND;
    if (order.style !== 'timer' || sent % (2 * FLOOD_ROUND) === 0) await turn();
  }
  const { n, total } = await connection.sendRequest('wait_count', { n: before + sent }, 0);
  check(n === before + sent && total === n * SMALL.seq, `${before + sent} sent, ${n} came`);
  return sent;
}

async function measureStall(connection, pid) {
  await connection.sendRequest('echo', { seq: 0 });
  const number = Math.floor(order.stalled_bytes / NOTE_BYTES);
  const data = 'x'.repeat(NOTE_BYTES - 100);
  const before = [memory('self', 'VmRSS'), memory(pid, 'VmRSS')];
  let accepted = 0;
  let figures;
  const watch = (async () => {
    const began = performance.now();
    let quiet = 0;
    let last = [-1, 0, 0];
    while (quiet < 4 && performance.now() - began < order.settle * 1e3) {
      await sleep(0.25);
      const cpu = processor(pid);
      const now = [accepted, cpu.own, cpu.other];
      quiet = now[0] === last[0] && now[1] - last[1] < 0.03 && now[2] - last[2] < 0.03 ? quiet + 1 : 0;
      last = now;
    }
    const sender_mb = memory('self', 'VmHWM') - before[0];
    const receiver_mb = memory(pid, 'VmHWM') - before[1];
    figures = { growth_mb: sender_mb + receiver_mb, sender_mb, receiver_mb, accepted_mb: (accepted * NOTE_BYTES) / 1e6, at_rest: Number(quiet >= 4) };
    fs.writeFileSync(order.gate, '');
  })();
  const send = async () => {
    for (let i = 0; i < number; i++) {
      connection.sendNotification('slow', { seq: i, data });
      accepted++;
      if (accepted % FLOOD_ROUND === 0) await turn();
    }
    const { n, total } = await connection.sendRequest('wait_count', { n: number }, 0);
    check(n === number && total === (number * (number - 1)) / 2, `${number} sent, ${n} came`);
    return 1;
  };
  const drained = await Promise.race([send(), sleep(order.settle + 20).then(() => 0)]);
  await watch;
  return { ...figures, drained };
}

async function drive(connection, pid) {
  const { scenario, seconds } = order;
  // Its compiler needs longer to warm up than Python does.
  const warmUp = Math.max(order.warm_up, 0.4);
  if (scenario === 'F') return measureStall(connection, pid);
  if (scenario in WIDTHS) {
    await checkEcho(connection, SMALL);
    await echoes(connection, warmUp);
    const figures = meter(pid);
    const latencies = await echoes(connection, seconds);
    const found = { ...figures(latencies.length), ...percentiles(latencies) };
    await checkEcho(connection, SMALL);
    return found;
  }
  if (scenario === 'C') {
    const before = await flood(connection, warmUp, 0);
    const figures = meter(pid);
    return figures(await flood(connection, seconds, before));
  }
  const params = large(LARGE[scenario]);
  await checkEcho(connection, params);
  const figures = meter(pid);
  const latencies = [];
  const end = performance.now() + seconds * 1e3;
  while (latencies.length < 3 || performance.now() < end) {
    const began = performance.now();
    const { data } = await connection.sendRequest('echo', params);
    latencies.push(performance.now() - began);
    check(data.length === params.data.length, 'length of a large echo');
  }
  const found = { ...figures(latencies.length), ...percentiles(latencies) };
  await checkEcho(connection, params);
  return found;
}

function startServer() {
  const server = [process.execPath, process.argv[1], 'serve', text];
  const child = spawn(server[0], server.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
  child.on('exit', () => setTimeout(() => process.exit(1), 100));
  if (order.cpus.length > 1) execFileSync('taskset', ['-acp', String(order.cpus[1]), String(child.pid)], { stdio: 'ignore' });
  return child;
}

// ------------------------------------------------------------------ both

async function importTime() {
  const began = performance.now();
  await load('MCPL_TS_CORE');
  return { ms: performance.now() - began };
}

async function clientMain() {
  if (order.scenario === 'G') return importTime();
  const { McplConnection } = await load('MCPL_TS_CORE');
  const child = startServer();
  if (order.link === 'stdio') return drive(McplConnection.fromStreams(child.stdout, child.stdin), child.pid);
  const port = await new Promise((resolve) => child.stdout.on('data', (data) => resolve(/PORT (\d+)/.exec(String(data))[1])));
  const { WebSocket } = await load('MCPL_TS_WS');
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { maxPayload: 0 });
  await new Promise((resolve) => socket.on('open', resolve));
  return drive(McplConnection.fromWebSocket(socket), child.pid);
}

async function serveMain() {
  const { McplConnection } = await load('MCPL_TS_CORE');
  if (order.link === 'stdio') return answer(McplConnection.fromStreams(process.stdin, process.stdout));
  process.stdin.on('end', () => process.exit(0)).resume();
  const { WebSocketServer } = await load('MCPL_TS_WS');
  return new Promise(() => {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0, maxPayload: 0 }, () => {
      process.stdout.write(`PORT ${server.address().port}\n`);
    });
    server.on('connection', (socket) => answer(McplConnection.fromWebSocket(socket)));
  });
}

if (mode === 'serve') {
  await serveMain();
  process.exit(0);
}
const figures = await clientMain();
process.stdout.write(`\nFIGURES ${JSON.stringify(figures)}\n`, () => process.exit(0));
