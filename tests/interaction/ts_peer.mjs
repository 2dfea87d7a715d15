// One end of an MCPL connection on the TypeScript core, for the tests: `node ts_peer.mjs serve` answers over standard
// input and output; `node ts_peer.mjs host COMMAND...` starts a server, talks to it, and prints what it saw as JSON.
// MCPL_TS_CORE names the built index.js of the core.
import { spawn } from 'node:child_process';
import { pathToFileURL } from 'node:url';

const { McplConnection } = await import(pathToFileURL(process.env.MCPL_TS_CORE));

async function answer(connection, handlers) {
  for (;;) {
    let message;
    try {
      message = await connection.nextMessage();
    } catch {
      return;
    }
    if (message.type !== 'request') {
      handlers[message.notification.method]?.(message.notification.params);
      continue;
    }
    const { id, method, params } = message.request;
    if (method in handlers) connection.sendResponse(id, await handlers[method](params));
    else connection.sendError(id, -32601, `no such method: ${method}`, { method });
  }
}

async function serve() {
  const connection = McplConnection.fromStreams(process.stdin, process.stdout);
  const heard = [];
  await answer(connection, {
    echo: (params) => params,
    note: (params) => heard.push(params),
    heard: () => heard,
    fail: () => undefined,
    ask: (params) => connection.sendRequest('answer', params),
  });
}

async function host(command, args) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const connection = McplConnection.fromStreams(child.stdout, child.stdin);
  const events = [];
  const taking = answer(connection, { 'push/event': (params) => (events.push(params), { accepted: true }) });
  const seen = { events };
  const hello = await connection.sendRequest('initialize', {
    protocolVersion: '2025-06-18',
    capabilities: { experimental: { mcpl: { version: '0.5', pushEvents: true } } },
    clientInfo: { name: 'ts', version: '1.0.0' },
  });
  seen.server = hello.serverInfo.name;
  seen.revision = hello.capabilities.experimental.mcpl.revision;
  connection.sendNotification('notifications/initialized');
  seen.early = await connection.sendRequest('tools/call', { name: 'remember', arguments: { text: 'x' } }).catch((e) => e.code);
  seen.receipt = await connection.sendRequest('featureSets/update', { effectiveCapabilities: ['tools', 'pushEvents'] });
  const listed = await connection.sendRequest('tools/list', {});
  seen.tools = listed.tools.map((tool) => tool.name);
  seen.result = await connection.sendRequest('tools/call', { name: 'remember', arguments: { text: 'l\u2028ine' } });
  seen.unknown = await connection.sendRequest('no/such', {}).catch((e) => e.code);
  connection.close();
  child.stdin.end();
  await taking;
  const status = await new Promise((resolve) => (child.exitCode === null ? child.on('exit', resolve) : resolve(child.exitCode)));
  console.log(JSON.stringify({ ...seen, status }));
}

const [mode, ...rest] = process.argv.slice(2);
await (mode === 'serve' ? serve() : host(rest[0], rest.slice(1)));
