import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { cpuMsOf } from './cpu-and-memory.ts'
import type { LoadOrder, LoadResult } from './load.ts'
import type { Sandbox } from './sandbox.ts'

/**
 * The output of `wrk.lua`. `refused` counts responses with a status of 400 or above; `failed` counts requests without a
 * response.
 */
interface Printed {
  responses: number
  us: number
  /** The CPU time of wrk. */
  cpuUs: number
  refused: number
  failed: number
  p50Us: number
  p99Us: number
}

/**
 * Runs wrk (https://github.com/wg/wrk) as the load generator; throws if it fails, or if a measured request fails or
 * gets a status of 400 or above. Unlike `load.ts`, wrk needs little CPU time, and none while it waits for responses, so
 * it suits servers that use all cores.
 */
export async function runWrk(sandbox: Sandbox, order: LoadOrder, expected: number): Promise<LoadResult> {
  const file = join(sandbox.folder, 'wrk-requests')
  writeFileSync(file, order.requests.map((request) => `${request}\0`).join(''))
  const warm = await send(sandbox, order, file, Math.max(1, Math.round(order.warmSeconds)))
  const before = cpuMsOf(order.serverPid)
  const { responses, us, cpuUs, refused, failed, p50Us, p99Us } = await send(sandbox, order, file, order.seconds)
  const serverMs = cpuMsOf(order.serverPid) - before
  if (refused + failed > 0)
    throw new Error(`${refused} of ${responses} responses were errors, and ${failed} requests failed`)
  return {
    ...{
      responses: warm.responses + responses,
      statuses: { [expected]: responses },
      perSecond: (responses * 1e6) / us,
    },
    ...{ p50Ms: p50Us / 1_000, p99Ms: p99Us / 1_000, serverUs: (serverMs * 1_000) / responses },
    ...{ serverShare: (serverMs * 1_000) / us, loadShare: cpuUs / us, othersShare: 0, othersLoadShare: 0 },
  }
}

async function send(sandbox: Sandbox, { port, connections }: LoadOrder, file: string, seconds: number) {
  const script = resolve(import.meta.dirname, 'wrk.lua')
  const load = ['-t1', `-c${connections}`, `-d${seconds}`, '-s', script, `http://127.0.0.1:${port}`, '--', file]
  const child = sandbox.start(['wrk', ...load], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'close').catch((cause) => {
    throw new Error('wrk is not installed; Debian has it as the package wrk', { cause })
  })
  const output = text(child.stdout as NodeJS.ReadableStream & AsyncIterable<Buffer>)
  await ended
  const printed = /^\{.*\}$/m.exec(await output)?.[0]
  if (printed === undefined) throw new Error(`wrk failed: ${await output}`)
  return JSON.parse(printed) as Printed
}
