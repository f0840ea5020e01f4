import { parentPort, workerData } from 'node:worker_threads'
import { loadDefinition } from '../cli/load-definition.ts'
import { readConfig } from '../config/config.ts'
import type { ThreadCounts } from '../metrics/metrics.ts'
import { startThread } from '../start.ts'
import type { ThreadContext } from './context.ts'
import { beatsOf, type ThreadMemory } from './memory.ts'
import { beatMs, type ThreadData, type ThreadMessage, type ToThread } from './messages.ts'

// The entry point of a service thread: serves requests, or does the background work.
const { definitionFile, port, memory, version, terminal, ...about } = workerData as ThreadData & {
  memory: ThreadMemory
}
const send = (message: ThreadMessage) => parentPort?.postMessage(message)

const pending = new Map<number, (counted: ThreadCounts[]) => void>()
let questions = 0
const others = (own: ThreadCounts) =>
  new Promise<ThreadCounts[]>((resolve) => {
    const id = ++questions
    pending.set(id, resolve)
    send({ event: 'question', id, counted: own })
  })

const beats = beatsOf(memory, about.number)
let beating: NodeJS.Timeout | undefined
const service = start().then(
  (started) => {
    beating = setInterval(beats.add, beatMs)
    send({ event: 'ready' })
    return started
  },
  (error) => {
    send({ event: 'failed', message: String(error?.message ?? error), exitCode: error?.exitCode })
    return null
  },
)

async function start() {
  const { http, service: settings, ...config } = readConfig(process.env)
  const roles = settings.roles.filter((role) => (role === 'worker') === (about.role === 'background'))
  const out = { ...terminal, write: (text: string) => process.stdout.write(text) } as ThreadContext['out']
  const adjusted = { ...config, http: { ...http, port }, service: { ...settings, roles } }
  return startThread(adjusted, await loadDefinition(definitionFile), version, { ...about, memory, out, others })
}

parentPort?.on('message', (message: ToThread) => {
  if (message.event === 'answers') {
    pending.get(message.id)?.(message.counted)
    pending.delete(message.id)
  } else if (message.event === 'question') {
    void service.then(async (started) => {
      if (started) send({ event: 'answer', id: message.id, counted: await started.counted() })
    })
  } else void service.then((started) => started?.close()).finally(end)
})

/** Stops the heartbeat and closes the port, so that the thread exits once no work is left. */
function end() {
  clearInterval(beating)
  send({ event: 'closed' })
  parentPort?.close()
}
