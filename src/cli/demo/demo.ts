import { setTimeout as sleep } from 'node:timers/promises'
import { grantAccess } from './access.ts'
import { type Call, jsonOf } from './api.ts'
import { catalogue } from './catalogue.ts'
import { closing, type Defer, interruptible } from './ending.ts'
import { load } from './load.ts'
import { type Receiver, receiver } from './receiver.ts'
import { type Download, downloadReport, followReport, requestProductReport } from './report.ts'
import { type Screen, screen } from './screen.ts'
import { ownService } from './start-own.ts'

const webhookWaitMs = 20_000
const number = new Intl.NumberFormat('en')

/** The context shared by the demo's steps. */
interface Stage {
  version: string
  out: Screen
  /** Aborted on Ctrl-C, SIGTERM or a closed standard output. */
  signal: AbortSignal
  defer: Defer
}

/**
 * Demonstrates the main flow on a service that it starts; throws if a step fails. Always stops the service and removes
 * its data.
 */
export async function demo(version: string): Promise<void> {
  const { defer, close } = closing()
  const interruption = interruptible()
  const out = screen(process.stdout, process.env)
  try {
    await play({ version, out, signal: interruption.signal, defer })
  } catch (error) {
    if (!interruption.signal.aborted) throw error
    out.line('  Stopped')
    process.exitCode = interruption.signal.reason
  } finally {
    await close().finally(interruption.release)
  }
}

async function play(stage: Stage): Promise<void> {
  const { version, out, signal, defer } = stage
  out.heading('Plinth: a token, a report, a signed webhook, a download')
  const own = await out.step(
    'Service',
    (showProgress) => ownService(version, showProgress, signal, defer),
    ({ service }) => `started at ${service.baseUrl}, with its own data folder`,
  )
  const { call } = await out.step(
    'Token',
    () => grantAccess(own, signal),
    ({ clientId, expiresInSeconds }) => `for the new client ${clientId}, valid for ${expiresInSeconds / 60} minutes`,
  )
  await out.step(
    'Catalogue',
    (showProgress) => load(call, catalogue(), showProgress),
    (count) => `${number.format(count)} products, books and users added`,
  )
  next(stage, await report(stage, call, own.service.dataDir))
}

/** Requests a report, follows its progress, receives its webhook, and downloads the result. */
async function report({ out, signal, defer }: Stage, call: Call, folder: string): Promise<Download> {
  const { secret } = await jsonOf<{ secret: string }>(await call('GET', '/api/webhooks/secret'))
  const hook = await receiver(secret)
  defer(hook.close)
  const task = await out.step(
    'Report',
    async (showProgress) =>
      followReport(call, await requestProductReport(call, hook.url), hook.received, showProgress, signal),
    ({ taskId, rowCount }) => `${taskId} completed, ${number.format(rowCount)} rows`,
  )
  await out.step(
    'Webhook',
    () => arrival(hook, task.taskId, signal),
    ({ event }) => `${event} received at ${new URL(hook.url).origin}, signature verified`,
  )
  return out.step(
    'Download',
    () => downloadReport(call, task, folder),
    ({ sizeBytes }) => `${number.format(sizeBytes)} bytes, digest verified`,
  )
}

async function arrival({ received }: Receiver, taskId: string, signal: AbortSignal) {
  const late = sleep(webhookWaitMs, null, { signal, ref: false })
  late.catch(() => {})
  const call = await Promise.race([received, late])
  if (call === null) throw new Error(`No webhook call arrived within ${webhookWaitMs / 1_000} seconds`)
  if (call.body.taskId !== taskId) throw new Error(`The webhook call is about another task, ${call.body.taskId}`)
  return call
}

function next({ out }: Stage, { firstLines }: Download): void {
  out.line()
  for (const line of firstLines) out.line(`    ${line}`, true)
  out.line('    …', true)
  out.heading('Try next')
  out.line('    npm start')
  out.line("\n  It prints how to get a first token; README.md continues from there. The demo's data is removed.\n")
}
