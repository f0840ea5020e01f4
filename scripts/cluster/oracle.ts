import { setTimeout as sleep } from 'node:timers/promises'
import { wrongBytes } from './actions.ts'
import type { ClusterClient, Response } from './client.ts'
import type { Entry } from './ledger.ts'
import type { Receiver } from './receiver.ts'

/** The result of verifying a promise: the number of cases checked, and the violations found. */
export interface Check {
  promise: string
  cases: number
  wrong: string[]
}

const settleMs = 180_000

/**
 * Compares the state of the cluster with everything that it has accepted. Call this once no more faults are injected.
 */
export async function checkLedger(
  entries: readonly Entry[],
  client: Pick<ClusterClient, 'send'>,
  receiver: Pick<Receiver, 'deliveries'>,
): Promise<Check[]> {
  const products = productsOf(entries)
  const tasks = entries.flatMap((entry) => (entry.kind === 'task' ? [entry.id] : []))
  const events = entries.map(subjectOf)
  return [
    await checkProducts(products, client),
    await checkRows(products, client),
    await checkFiles(tasks, client),
    await checkArrivals(events, receiver),
    checkDeliveries(events, receiver),
  ]
}

interface Expected {
  name: string
  revision: number
}

function productsOf(entries: readonly Entry[]): Map<number, Expected> {
  const products = new Map<number, Expected>()
  for (const entry of entries) {
    if (entry.kind === 'created') products.set(entry.id, { name: entry.name, revision: 1 })
    if (entry.kind === 'changed') products.set(entry.id, { name: entry.name, revision: entry.revision })
  }
  return products
}

/** Identifies the event for an accepted write; matches the receiver's `subjectOf`. */
function subjectOf(entry: Entry): string {
  if (entry.kind === 'task') return `report.completed ${entry.id}`
  return entry.kind === 'created' ? `product.created ${entry.id}` : `product.updated ${entry.id} ${entry.name}`
}

async function checkProducts(expected: Map<number, Expected>, client: Pick<ClusterClient, 'send'>): Promise<Check> {
  const wrong: string[] = []
  await inParallel([...expected], async ([id, { name, revision }]) => {
    const found = await success(client, `/products/${id}`)
    const seen = `${found.json().name} ${found.headers.etag}`
    if (seen !== `${name} "${revision}"`) wrong.push(`product ${id} is ${seen}, expected ${name} "${revision}"`)
  })
  return { promise: 'each product has its last accepted change', cases: expected.size, wrong }
}

async function checkRows(expected: Map<number, Expected>, client: Pick<ClusterClient, 'send'>): Promise<Check> {
  const wrong: string[] = []
  let rows = 0
  for (let path: string | undefined = '/products?limit=200'; path !== undefined; ) {
    const page: Response = await success(client, path)
    for (const { id, name } of page.json() as { id: number; name: string }[]) {
      rows++
      if (!expected.has(id)) wrong.push(`product ${id} (${name}) was never accepted, or twice`)
    }
    path = /<([^>]+)>; rel="next"/.exec(String(page.headers.link))?.[1]
    if (path?.startsWith('http')) path = path.slice(new URL(path).origin.length)
  }
  return { promise: 'no product was created twice', cases: rows, wrong }
}

async function checkFiles(tasks: readonly string[], client: Pick<ClusterClient, 'send'>): Promise<Check> {
  const wrong: string[] = []
  const deadline = performance.now() + settleMs
  await inParallel(tasks, async (task) => {
    const ended = await until(deadline, async () => {
      const { status, attempts } = (await success(client, `/api/reports/${task}/status`)).json()
      if (status === 'completed') return 'completed'
      return status === 'failed' ? `failed after ${attempts} attempts` : undefined
    })
    if (ended === 'completed') wrong.push(...wrongBytes(task, await success(client, `/api/reports/${task}/download`)))
    else wrong.push(`${task} is ${ended ?? `not completed after ${settleMs / 1_000} s`}`)
  })
  return { promise: 'each report is completed, its file has its length and SHA-256', cases: tasks.length, wrong }
}

async function checkArrivals(events: readonly string[], { deliveries }: Pick<Receiver, 'deliveries'>): Promise<Check> {
  const missing = () => {
    const taken = new Set([...deliveries.values()].filter(({ isTaken }) => isTaken).map(({ subject }) => subject))
    return events.filter((event) => !taken.has(event))
  }
  await until(performance.now() + settleMs, async () => missing().length === 0 || undefined)
  return {
    promise: 'each event was delivered',
    cases: events.length,
    wrong: missing().map((event) => `${event} is missing`),
  }
}

function checkDeliveries(events: readonly string[], { deliveries }: Pick<Receiver, 'deliveries'>): Check {
  const wrong: string[] = []
  const expected = new Set(events)
  const ids = new Map<string, string>()
  for (const [id, { subject, bodies, forged }] of deliveries) {
    if (bodies.size > 1) wrong.push(`${subject} (${id}) was delivered with ${bodies.size} different bodies`)
    if (forged > 0) wrong.push(`${subject} (${id}) had ${forged} attempts without a valid signature`)
    if (!expected.has(subject)) wrong.push(`${subject} (${id}) is the event of a write that was not accepted`)
    if (ids.has(subject)) wrong.push(`${subject} was delivered as ${ids.get(subject)} and as ${id}`)
    ids.set(subject, id)
  }
  const cases = [...deliveries.values()].reduce((sum, { attempts }) => sum + attempts, 0)
  return { promise: 'all attempts for an event are signed and have the same id and bytes', cases, wrong }
}

/** Sends a GET up to five times until it succeeds; throws if it does not. */
async function success(client: Pick<ClusterClient, 'send'>, path: string): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const outcome = await client.send('GET', path)
    if (outcome.status === 200) return outcome as Response
    if (attempt === 5) throw new Error(`GET ${path} got ${outcome.status} five times after the end of the faults`)
    await sleep(1_000)
  }
}

async function until<T>(deadline: number, look: () => Promise<T | undefined>): Promise<T | undefined> {
  for (;;) {
    const found = await look()
    if (found !== undefined || performance.now() > deadline) return found
    await sleep(500)
  }
}

const atOnce = 8

async function inParallel<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const left = all.values()
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const one of left) await work(one)
    }),
  )
}
