import { freePort } from '../src/serving/listeners.ts'
import type { Bench, Measurement } from './bench.ts'
import { cpuMsOf, type Memory, memoryOf, pinned, serverCore } from './cpu-and-memory.ts'
import { type Side, withRatio } from './results.ts'
import { environment, startReady } from './sandbox.ts'
import { type OwnDefinition, referenceProgram, startService } from './service.ts'

/** Measures how long `plinth serve` takes until `/readyz` responds with 200, compared with Fastify with one route. */
export const startRow: Measurement = {
  name: 'start',
  measure: async (bench) => {
    const about = { name: 'start', title: 'plinth serve, until ready', floor: 0.2 }
    bench.say(`${about.title}: warming up`)
    await startReference(bench)
    // The first start is not measured, because it creates the keys and caches the compiled code.
    let memory = (await startOnce(bench)).memory
    const rounds: Record<'reference' | 'service', Side>[] = []
    for (let round = 1; round <= bench.options.rounds; round++) {
      const reference = await startReference(bench)
      const { side: service, ...measured } = await startOnce(bench)
      memory = measured.memory
      bench.say(`  ${round} reference ${line(reference)}; service ${line(service)}`)
      rounds.push({ reference, service })
    }
    return withRatio({ ...about, rounds, memory, unit: 'starts', reference: 'Fastify with one route' })
  },
}

const line = ({ wallMs, cpuMs }: Side) => `${Number(wallMs).toFixed(0)} ms, ${Number(cpuMs).toFixed(0)} ms of CPU time`

/** Converts the times of one start. Other processes on the core affect the wall time, but hardly the CPU time. */
const sideOf = (wallMs: number, cpuMs: number): Side => ({
  ...{ perSecond: 1_000 / wallMs, wallMs, cpuMs },
  ...{ serverUs: cpuMs * 1_000, serverShare: cpuMs / wallMs },
})

const emptyCatalogue: OwnDefinition = { file: '', fill: () => {}, scopes: '', path: '/readyz' }

/** Starts and stops the service; every start uses the same database. */
async function startOnce({ sandbox, options, pin }: Bench): Promise<{ side: Side; memory: Memory }> {
  const service = await startService(sandbox, options, pin, { name: 'start', definition: emptyCatalogue })
  const side = sideOf(service.readyMs, cpuMsOf(service.pid))
  const memory = memoryOf(service.pid)
  await service.stop()
  return { side, memory }
}

async function startReference({ sandbox, pin }: Bench): Promise<Side> {
  const command = pinned(pin, serverCore, [process.execPath, referenceProgram, 'one-route'])
  const startedAt = performance.now()
  const child = await startReady(sandbox, command, environment({ BARE_PORT: String(await freePort()) }))
  const side = sideOf(performance.now() - startedAt, cpuMsOf(child.pid as number))
  await sandbox.stop(child)
  return side
}
