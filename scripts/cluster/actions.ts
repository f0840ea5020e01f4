import { createHash, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClusterClient, HttpOptions, Method, Outcome, Response } from './client.ts'
import type { Ledger } from './ledger.ts'
import type { Fate, Tally } from './tally.ts'

/** A product created by the load. Only one action at a time writes to it, so its revision is known. */
interface Product {
  id: number
  name: string
  revision: number
  isBusy: boolean
}

export interface ActionOptions {
  client: ClusterClient
  ledger: Ledger
  tally: Tally
  random: () => number
}

const formats = ['csv', 'json', 'ndjson', 'xlsx']
const giveUpMs = 90_000

/** The state shared by all actions of a load. */
interface Context extends Pick<ActionOptions, 'ledger' | 'tally' | 'random'> {
  products: Product[]
  tasks: string[]
  attempt: ReturnType<typeof attempting>
}

/**
 * Returns the load's actions by name. Each write is retried until its result is certain, and then appended to the
 * ledger.
 */
export function actionsOf({ client, ledger, tally, random }: ActionOptions) {
  const context: Context = { ledger, tally, random, products: [], tasks: [], attempt: attempting(client, tally) }
  return {
    create: () => createProduct(context),
    change: () => changeProduct(context),
    read: () => readProduct(context),
    list: async () => void (await context.attempt('GET', '/products?limit=20&sort=-name', {}, [200])),
    report: () => createReport(context),
    look: () => readReport(context),
  }
}

const oneOf = <T>(all: readonly T[], random: () => number): T | undefined => all[Math.floor(random() * all.length)]

/**
 * Sends a POST, always with the same Idempotency-Key, until the response has this status; gives up after 90 seconds and
 * returns undefined.
 */
function post({ attempt, tally }: Context, path: string, body: object, status: number): Promise<Response | undefined> {
  const headers = { 'idempotency-key': randomUUID() }
  return untilCertain(tally, `POST ${path}`, async () => {
    const outcome = await attempt('POST', path, { headers, body }, [status])
    return outcome.status === status ? (outcome as Response) : undefined
  })
}

async function createProduct(context: Context): Promise<void> {
  const name = `product ${randomUUID()}`
  const created = await post(context, '/products', { name, price: 1 }, 201)
  if (created === undefined) return
  const { id } = created.json() as { id: number }
  context.ledger.append({ kind: 'created', id, name })
  context.products.push({ id, name, revision: revisionOf(created), isBusy: false })
}

async function changeProduct(context: Context): Promise<void> {
  const { products, ledger, tally, random } = context
  const idle = products.filter(({ isBusy }) => !isBusy)
  const product = oneOf(idle, random)
  if (product === undefined) return createProduct(context)
  product.isBusy = true
  const revision = product.revision + 1
  const name = `product ${product.id} change ${revision}`
  const isApplied = await untilCertain(tally, `PUT /products/${product.id}`, () => put(context, product, name))
  if (isApplied === undefined) return
  ledger.append({ kind: 'changed', id: product.id, name, revision })
  Object.assign(product, { name, revision, isBusy: false })
}

/**
 * Sends a conditional PUT. A 412 can mean that an earlier attempt succeeded, because this client retries requests, and
 * nginx retries a PUT on another node. In that case, the product already has the new name, which no other client
 * changes.
 */
async function put({ attempt, tally }: Context, { id, revision }: Product, name: string): Promise<true | undefined> {
  const headers = { 'if-match': `"${revision}"` }
  const path = `/products/${id}`
  const outcome = await attempt('PUT', path, { headers, body: { name, price: revision } }, [200])
  if (outcome.status === 200) return true
  if (outcome.status !== 412) return undefined
  const read = await attempt('GET', path, {}, [200])
  if (read.status !== 200) return undefined
  if ((read as Response).json().name === name) return true
  tally.violations.add(`PUT ${path} with the current ETag "${revision}" got 412, and the product did not change`)
  return undefined
}

async function readProduct(context: Context): Promise<void> {
  const { products, attempt, tally, random } = context
  const product = oneOf(products, random)
  if (product === undefined) return createProduct(context)
  const { id, revision } = product
  const headers: Record<string, string> = random() < 0.5 ? {} : { 'if-none-match': `"${revision}"` }
  const outcome = await attempt('GET', `/products/${id}`, { headers }, [200, 304])
  const found = outcome.status === 200 ? revisionOf(outcome as Response) : revision
  if (found < revision) tally.violations.add(`GET /products/${id} returned revision ${found} after ${revision}`)
}

async function createReport(context: Context): Promise<void> {
  const format = oneOf(formats, context.random) as string
  const accepted = await post(context, '/api/reports', { reportType: 'products', format }, 202)
  if (accepted === undefined) return
  const { taskId } = accepted.json() as { taskId: string }
  context.ledger.append({ kind: 'task', id: taskId, format })
  context.tasks.push(taskId)
}

/** Reads the status of a report, and its file if it is completed. */
async function readReport(context: Context): Promise<void> {
  const { tasks, attempt, tally, random } = context
  const task = oneOf(tasks, random)
  if (task === undefined) return createReport(context)
  const outcome = await attempt('GET', `/api/reports/${task}/status`, {}, [200])
  if (outcome.status !== 200 || (outcome as Response).json().status !== 'completed') return
  const result = await attempt('GET', `/api/reports/${task}/download`, {}, [200])
  if (result.status !== 200) return
  for (const wrong of wrongBytes(task, result as Response)) tally.violations.add(wrong)
}

/** Checks the length and digest of a downloaded file; returns a description of the error, or an empty array. */
export function wrongBytes(task: string, { headers, bytes }: Response): string[] {
  const digest = `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
  const isWhole = headers['content-length'] === String(bytes.length) && headers['repr-digest'] === digest
  return isWhole ? [] : [`The file of ${task} has ${bytes.length} bytes with ${digest}: ${JSON.stringify(headers)}`]
}

const revisionOf = ({ headers }: Response) => Number(String(headers.etag).replaceAll('"', ''))

/** Returns a function that sends a request once and counts its result; `expected` lists the statuses that count as success. */
const attempting =
  (client: ClusterClient, tally: Tally) =>
  async (method: Method, path: string, options: HttpOptions, expected: number[]): Promise<Outcome> => {
    const startedMs = performance.now()
    const outcome = await client.send(method, path, options)
    const text = 'bytes' in outcome ? outcome.bytes.toString('utf8', 0, 300) : outcome.reason
    const description = `${method} ${path} ${outcome.status} ${text}`
    tally.count(fateOf(outcome, expected, options), performance.now() - startedMs, description)
    return outcome
  }

function fateOf(outcome: Outcome, expected: number[], { headers }: HttpOptions): Fate {
  if (!('bytes' in outcome)) return outcome.status
  const { status } = outcome
  if (expected.includes(status)) return 'success'
  if (status === 503 || status === 429) return `${status}`
  if (status === 409 && headers?.['idempotency-key'] && outcome.headers['retry-after']) return '409, the key is in use'
  if (status === 412 && headers?.['if-match']) return '412, after a retry'
  return 'unexpected'
}

/** Repeats an attempt every half second until it returns a value; after 90 seconds, records a violation. */
async function untilCertain<T>(
  tally: Tally,
  what: string,
  attempt: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const startedMs = performance.now()
  for (;;) {
    const result = await attempt()
    if (result !== undefined) return result
    if (performance.now() - startedMs > giveUpMs) break
    await sleep(500)
  }
  tally.violations.add(`${what} did not succeed within ${giveUpMs / 1_000} s`)
  return undefined
}
