import { isAbsolute, join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { access } from '../demo/access.ts'
import { type Address, type Call, jsonOf } from '../demo/api.ts'
import { catalogue } from '../demo/catalogue.ts'
import { closing, type Defer, interruptible } from '../demo/ending.ts'
import { load } from '../demo/load.ts'
import { reach } from '../demo/reach.ts'
import { type Receiver, receiver } from '../demo/receiver.ts'
import { askForReport, type Download, download, follow } from '../demo/report.ts'
import { type Screen, screen } from '../demo/screen.ts'
import { judgeUrl } from '../http/guard.ts'

const webhookWaitMs = 20_000
const number = new Intl.NumberFormat('en')

/** What the steps of the demo share. */
interface Stage {
  config: Config
  version: string
  out: Screen
  /** Aborted by Ctrl-C. */
  signal: AbortSignal
  defer: Defer
}

/** Shows the main flow on a running service, or on one that it starts; throws when a step fails, with all stopped. */
export async function demo(config: Config, version: string): Promise<void> {
  refuseWrongPlace(config)
  const { defer, close } = closing()
  const interruption = interruptible()
  const out = screen(process.stdout, process.env)
  try {
    await play({ config, version, out, signal: interruption.signal, defer })
  } catch (error) {
    if (!interruption.signal.aborted) throw error
    out.line('  Stopped')
    process.exitCode = interruption.signal.reason
  } finally {
    await close().finally(interruption.release)
  }
}

/** The demo writes sample data, speaks HTTPS to the service itself, and receives a call on loopback. */
function refuseWrongPlace({ production, tls, webhookAllowHttp: allowHttp, webhookAllowCidrs: allowCidrs }: Config) {
  if (production) {
    const why = 'it loads sample data, and a production service calls no webhook on this machine'
    throw new Error(`The demo does not run with PLINTH_PROFILE=production: ${why}`)
  }
  if (tls === 'off') throw new Error('The demo speaks HTTPS to the service, and PLINTH_TLS=off switches that off')
  const verdict = judgeUrl({ allowHttp, allowCidrs }, 'http://127.0.0.1:1024/')
  if (verdict.ok) return
  const why = `the demo receives its webhook at http://127.0.0.1, and a callback address ${verdict.reason}`
  throw new Error(`Unset PLINTH_WEBHOOK_ALLOW_HTTP and PLINTH_WEBHOOK_ALLOW_CIDRS: ${why}`)
}

async function play(stage: Stage): Promise<void> {
  const { config, version, out, signal, defer } = stage
  out.heading('Plinth: a token, a report, a signed webhook, a download')
  const reached = await out.step(
    'Service',
    (tell) => reach(config, version, tell, signal, defer),
    ({ own, address }) =>
      `${own ? 'started' : 'is running'} at ${address.origin}, data folder: ${shown(config.dataDir)}`,
  )
  const { call } = await out.step(
    'Token',
    () => access(reached, config, signal, defer),
    ({ clientId, expiresInSeconds }) => `for the new client ${clientId}, good for ${expiresInSeconds / 60} minutes`,
  )
  await out.step(
    'Catalogue',
    (tell) => load(call, catalogue(), tell),
    ({ total, added }) =>
      added > 0
        ? `${number.format(added)} products, books and users added`
        : `${number.format(total)} products, books and users are there`,
  )
  next(stage, await report(stage, call), reached.address, reached.own !== null)
}

/** Asks for a report, watches it, hears that it is done, and fetches it. */
async function report({ config, out, signal, defer }: Stage, call: Call): Promise<Download> {
  const { secret } = await jsonOf<{ secret: string }>(await call('GET', '/api/webhooks/secret'))
  const hook = await receiver(secret)
  defer(hook.close)
  const task = await out.step(
    'Report',
    async (tell) => follow(call, await askForReport(call, hook.url), hook.received, tell, signal),
    ({ taskId, rowCount }) => `${taskId} completed, ${number.format(rowCount)} rows`,
  )
  await out.step(
    'Webhook',
    () => arrival(hook, task.taskId, signal),
    ({ event }) => `${event} received at ${new URL(hook.url).origin}, signature verified`,
  )
  return out.step(
    'Download',
    () => download(call, task, join(resolve(config.dataDir), 'demo')),
    ({ sizeBytes }) => `${number.format(sizeBytes)} bytes, as Repr-Digest says`,
  )
}

async function arrival({ received }: Receiver, taskId: string, signal: AbortSignal) {
  const late = sleep(webhookWaitMs, null, { signal, ref: false })
  late.catch(() => {})
  const call = await Promise.race([received, late])
  if (call === null) throw new Error(`No webhook call came within ${webhookWaitMs / 1_000} seconds`)
  if (call.body.taskId !== taskId) throw new Error(`The webhook call is about another task, ${call.body.taskId}`)
  return call
}

function next({ config, out }: Stage, { file, firstLines }: Download, { origin }: Address, stopped: boolean): void {
  const authority = shown(join(config.dataDir, 'certificates', 'authority.crt'))
  const curl = config.tlsCertFile ? 'curl' : `curl --cacert ${authority}`
  out.line()
  for (const line of firstLines) out.line(`    ${line}`, true)
  out.line('    …', true)
  out.line(`\n  The file is ${shown(file)}`)
  out.heading('Try next')
  const commands = [
    ...(stopped ? ['npm start'] : []),
    `${curl} '${origin}/products?sort=-price&limit=3'`,
    `${curl} '${origin}/books?genre=Poetry&fields=title,author,_links.author'`,
    'npx plinth clients create --name Me --scope reports:read',
  ]
  for (const command of commands) out.line(`    ${command}`)
  out.line('\n  README.md has the first requests with a token, docs/ the rest\n')
}

/** A path the way a person here would type it. */
function shown(path: string): string {
  const near = relative(process.cwd(), resolve(path))
  return near.startsWith('..') || isAbsolute(near) ? resolve(path) : near || '.'
}
