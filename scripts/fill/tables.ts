import type { RegisteredClient } from '../../src/oauth/clients/client-rows.ts'
import type { Webhook } from '../../src/storage/tables/tables.ts'
import { type Target, withoutIndexes } from './target.ts'

/** Properties shared by all rows of one fill, such as their owner and a tag unique to this fill. */
export interface Lot {
  target: Target
  /** Four characters unique to this fill, included in each id and e-mail address. */
  tag: string
  client: Pick<RegisteredClient, 'id'>
  webhook: Pick<Webhook, 'id' | 'callbackUrl'>
  /** The end of the 25 days over which the creation times of the rows are spread, in epoch ms. */
  nowMs: number
  say: (line: string) => void
}

type Row = Record<string, string>

const dayMs = 86_400_000
const chunk = 250_000
const text = (value: string) => `'${value.replaceAll("'", "''")}'`
const padded = (number: string) => `substr('00000000' || (${number}), -8)`

/** Adds books of five common genres; one book in 10,000 has a rare genre. */
export const addBooks = (lot: Lot, count: number) =>
  addRows(lot, 'books', count, ({ instant }) => {
    const title = `'The ' || ${pick(['brass', 'oak', 'steel', 'woven'], 'i')} || ' lantern ' || i`
    const author = `'Author ' || (i * 7919 % 50000)`
    const genre = `case when i % 10000 = 0 then 'heraldry' else ${pick(['crime', 'history', 'poetry', 'science', 'travel'], 'i / 7')} end`
    const at = instant(age(lot, count))
    return {
      ...{ title, title_key: `lower(${title})`, author, author_key: `lower(${author})`, genre, genre_key: genre },
      ...{ revision: '1', created_at: at, updated_at: at },
    }
  })

export const addUsers = (lot: Lot, count: number) =>
  addRows(lot, 'users', count, ({ instant }) => {
    const [name, email] = [`'Person ' || (i * 31 % 400000)`, `'p' || i || ${text(`.${lot.tag}@example.com`)}`]
    const at = instant(age(lot, count))
    return {
      ...{ name, name_key: `lower(${name})`, email, email_key: email },
      ...{ revision: '1', created_at: at, updated_at: at },
    }
  })

/** Adds finished tasks, mostly with expired results; one task in 1,000 failed, one in 10,000 has a rare type. */
export const addTasks = (lot: Lot, count: number) =>
  addRows(lot, 'tasks', count, ({ instant }) => {
    const ms = age(lot, count)
    const failed = (then: string, otherwise: string) => `case when i % 1000 = 7 then ${then} else ${otherwise} end`
    const type = `case when i % 10000 = 0 then 'inventory' else ${pick(['books', 'users', 'products'], 'i')} end`
    return {
      ...{ id: idOf(lot, 'tsk', 13), owner_client: text(lot.client.id), owner_subject: text(lot.client.id) },
      ...{ report_type: type, format: pick(['csv', 'json', 'ndjson', 'xlsx'], 'i'), version_prefix: "''" },
      ...{ status: failed("'failed'", "'completed'"), progress: failed('40', '100'), attempts: failed('3', '1') },
      ...{ row_count: failed('null', '1000'), size_bytes: failed('null', '48000') },
      ...{ error_code: failed("'INTERNAL_ERROR'", 'null'), error_message: failed("'The report failed'", 'null') },
      ...{ created_at: instant(ms), started_at: instant(`${ms} + 1000`), completed_at: instant(`${ms} + 5000`) },
      ...{ expires_at: failed('null', instant(`${ms} + 3605000`)) },
      ...{ updated_at: instant(`${ms} + 5000`), revision: '3' },
    }
  })

const eventTypes = "case when i % 1000 = 3 then 'user.deleted' when i % 100 = 5 then 'report.completed'"
const typeOf = `${eventTypes} when i % 3 = 0 then 'book.updated' else 'book.created' end`
const audience = "case when i % 1000 = 3 then 'users:read' when i % 100 = 5 then null else 'any' end"
const bodyOf = `'{"id":' || i || ',"title":"The oak lantern ' || i || '","author":"Author ' || (i % 50000) || '"}'`

/**
 * Adds deliveries for the webhook, with their events and attempts; one delivery in 1,000 failed, and one in 1,000 is waiting
 * for its fourth attempt.
 */
export async function addDeliveries(lot: Lot, count: number): Promise<void> {
  const { client, webhook, nowMs, target } = lot
  const owner = { owner_client: text(client.id), owner_subject: text(client.id) }
  await addRows(lot, 'events', count, ({ instant }) => {
    return {
      id: idOf(lot, 'msg'),
      type: typeOf,
      ...owner,
      body: bodyOf,
      audience,
      created_at: instant(age(lot, count)),
    }
  })
  const state = (failed: string, pending: string, delivered: string) =>
    `case i % 1000 when 7 then ${failed} when 8 then ${pending} else ${delivered} end`
  await addRows(lot, 'deliveries', count, ({ instant }) => {
    const ms = age(lot, count)
    return {
      ...{
        id: idOf(lot, 'dlv'),
        event_id: idOf(lot, 'msg'),
        event_type: typeOf,
        webhook_id: text(webhook.id),
        ...owner,
      },
      ...{ url: text(webhook.callbackUrl), body: bodyOf, lane: text(webhook.id) },
      ...{ status: state("'failed'", "'pending'", "'delivered'"), attempts: state('10', '3', '1') },
      ...{ created_at: instant(ms), completed_at: state(instant(`${ms} + 90000`), 'null', instant(`${ms} + 200`)) },
      next_attempt_at: state('null', instant(String(nowMs + dayMs / 2)), 'null'),
    }
  })
  await addRows(lot, 'attempts', count, ({ instant }) => {
    const started_at = instant(`${age(lot, count)} + 50`)
    const status_code = state('503', '503', '204')
    return { delivery_id: idOf(lot, 'dlv'), attempt: '1', started_at, duration_ms: '20 + i % 80', status_code }
  })
  if (count === 0) return
  const due = target.instant(String(nowMs + dayMs / 2))
  const laneOwner = text(`${client.id} ${client.id}`)
  await target.run(
    `insert into delivery_lanes (lane, due_at, owner) values (${text(webhook.id)}, ${due}, ${laneOwner})`,
  )
  await target.run(`insert into delivery_owners (owner, rank, due_at) values (${laneOwner}, 1, ${due})
    on conflict do nothing`)
}

/** Returns SQL for the creation time (epoch ms) of the `i`th of `count` rows; the last row is a minute old. */
const age = ({ nowMs }: Lot, count: number) =>
  `${nowMs - 60_000} - (${count} - i) * ${Math.max(1, Math.floor((25 * dayMs) / Math.max(1, count)))}`

/** Returns SQL for ids that sort in the order of creation, and before any id that the service creates later. */
const idOf = ({ tag, target }: Lot, prefix: string, length = 22) =>
  `${text(`${prefix}_0`)} || ${padded('i')} || substr(${text(tag)} || ${target.suffix('i')}, 1, ${length})`

const pick = (values: string[], number: string) =>
  `case (${number}) % ${values.length} ${values.map((value, at) => `when ${at} then ${text(value)}`).join(' ')} end`

/** Adds rows 1 to `count`, one chunk per transaction; each column is an expression in `i`. */
async function addRows(lot: Lot, table: string, count: number, rowOf: (target: Target) => Row): Promise<void> {
  if (count === 0) return
  const { target, say } = lot
  const start = performance.now()
  const row = rowOf(target)
  const into = `insert into ${table} (${Object.keys(row).join(', ')}) select ${Object.values(row).join(', ')} from `
  await withoutIndexes(target, table, async () => {
    for (let first = 1; first <= count; first += chunk) {
      const last = Math.min(count, first + chunk - 1)
      await target.run(into + target.numbers(first, last))
      say(`  ${table}: ${last.toLocaleString('en')} of ${count.toLocaleString('en')}`)
    }
  })
  say(`${table}: ${count.toLocaleString('en')} rows in ${((performance.now() - start) / 1_000).toFixed(1)} s`)
}
