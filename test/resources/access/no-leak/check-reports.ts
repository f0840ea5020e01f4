import assert from 'node:assert/strict'
import { reportFile } from '../../../support/report-files.ts'
import { accessDenied, drawCaller } from './check-reads.ts'
import { assertRefused, type Context, count, move, send, tokenOf } from './context.ts'
import type { Dice } from './dice.ts'
import { compare, type Filter, listed } from './lists.ts'
import type { Person } from './people.ts'
import { drawValue } from './requests.ts'
import { fieldValue, type Members, shown } from './rows.ts'
import { askerOf, meets, type Row } from './rules.ts'
import { kindOf, type Name } from './shapes.ts'

const plain = { filters: [] as Filter[], or: [], q: null, sort: [], under: null }

interface Order {
  type: string
  of: Name
  parameters: object
  /** Computes the expected rows at the time the report runs. */
  rows: () => Members[]
}

/** Requests, generates and downloads a report. The requester’s claim may change before the report runs. */
async function checkReport(dice: Dice, on: Context, who: Person, { type, of, parameters, rows }: Order): Promise<void> {
  if (!who.scopes.includes(`${of}:read`)) {
    const payload = { reportType: type, format: 'json', parameters }
    count(on, 'report', 403)
    return assertRefused(await send(on, who, { method: 'POST', url: '/api/reports', payload }), accessDenied)
  }
  const { app, db, definition } = on
  on.reporter = who
  const format = dice.one(['json', 'json', 'ndjson', 'csv'])
  const isMoved = dice.chance(0.3)
  const tenant = dice.one(['north', 'South', undefined])
  const meanwhile = () => (isMoved ? move(on, who, tenant) : undefined)
  const at = { service: { ...app, db }, definition, scopes: '' }
  on.log.push(`${who.name} report ${type} ${format} ${JSON.stringify(parameters)}`)
  // `meanwhile` may advance `app.clock`, which is read only when the report runs.
  const file = String(await reportFile(at, type, parameters, { format, token: tokenOf(who), meanwhile }))
  on.requests += 3
  count(on, type === 'summary' ? 'typed report' : 'report', 200)
  const expected = JSON.parse(JSON.stringify(rows()))
  if (format === 'json') return assert.deepEqual(JSON.parse(file), expected)
  const lines = file.split(/\r?\n/).slice(0, -1)
  if (format === 'ndjson')
    return assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      expected,
    )
  const columns = (lines[0] ?? '').split(',')
  const cells = lines.slice(1).map((line) => line.split(','))
  const text = (row: Members) => columns.map((column) => String(row[column] ?? ''))
  assert.deepEqual(
    cells.map((row) => row.map((cell) => cell.replace(/^'/, ''))),
    expected.map(text),
  )
}

/** Checks a collection's built-in report: its stored fields, sums and counts, but no computed conditions. */
export function checkRowsReport(dice: Dice, on: Context): Promise<void> {
  const { state } = on
  const of = dice.one(state.world.names)
  const who = drawCaller(dice, on, of)
  const shape = state.world.shapes[of]
  const filterable = shape.filters.filter((field) => !(field in shape.whens) && kindOf(shape, field) !== 'reference')
  const field = filterable.length > 0 && dice.chance(0.4) ? dice.one(filterable) : undefined
  const value = field && drawValue(dice, state, of, field)
  const filters = field === undefined ? [] : [{ field, operator: '=', value }]
  const rowOf = (row: Row): Members => {
    const { _links, ...members } = shown(state, of, row, 'v2', '')
    for (const when of Object.keys(shape.whens)) delete members[when]
    return members
  }
  const rows = () => listed(state, of, { ...plain, filters }, askerOf(who), []).map(rowOf)
  const parameters = field === undefined ? {} : { filter: { [field]: value } }
  return checkReport(dice, on, who, { type: of, of, parameters, rows })
}

/** Checks the definition's typed report: groups, each with a row count and an optional sum. */
export function checkTypedReport(dice: Dice, on: Context): Promise<void> {
  const { state } = on
  const { of, where, group, sum } = state.world.report
  const who = drawCaller(dice, on, of)
  const kind = group === null ? 'text' : kindOf(state.world.shapes[of], group)
  const rows = () => {
    const found = listed(state, of, plain, askerOf(who), []).filter(
      (row) => where === null || meets(state, where, of, row),
    )
    const groups = Map.groupBy(found, (row) => (group === null ? undefined : (row[group] as string | undefined)))
    if (group === null && found.length === 0) groups.set(undefined, [])
    const made = [...groups].map(([key, members]) => ({ key, ...aggregated(on, of, sum, members) }))
    const keyOf = (key: unknown) => (kind === 'integer' ? Number(key) : String(key))
    made.sort((one, other) => {
      if (one.key === undefined || other.key === undefined)
        return one.key === other.key ? 0 : one.key === undefined ? 1 : -1
      return compare(keyOf(one.key), keyOf(other.key))
    })
    return made.map(({ key, ...shows }) => ({ ...(group !== null && key !== undefined && { [group]: key }), ...shows }))
  }
  return checkReport(dice, on, who, { type: 'summary', of, parameters: {}, rows })
}

function aggregated({ state }: Context, of: Name, sum: string | null, members: readonly Row[]): Members {
  if (sum === null) return { rows: members.length }
  const cents = members.reduce(
    (total, row) => total + Math.round(Number(fieldValue(state, of, row, sum) ?? 0) * 100),
    0,
  )
  const isDecimal = kindOf(state.world.shapes[of], sum) === 'decimal'
  return { rows: members.length, total: isDecimal ? (cents / 100).toFixed(2) : cents / 100 }
}
