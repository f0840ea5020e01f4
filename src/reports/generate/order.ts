import { lacksScope } from '../../http/policies/authorize.ts'
import { Problem } from '../../http/problems/problem.ts'
import { iso } from '../../storage/ids.ts'
import type { RowTest } from '../../storage/rows/row-test.ts'
import type { Task } from '../../storage/tables/tables.ts'
import { matchingRows } from '../declared-report.ts'
import { formats } from '../formats/formats.ts'
import { checkParameters } from '../parameters.ts'
import {
  columnsOf,
  type ReportAccess,
  type ReportQuery,
  type ReportRequester,
  readOf,
  requesterFor,
  type ServedReport,
} from '../report-types.ts'
import type { Transitions } from '../task-states.ts'
import { queryOf } from '../tasks.ts'
import type { RenderJob } from './render.ts'

export interface OrderOptions extends Pick<Transitions, 'db' | 'now'> {
  kinds: readonly ServedReport[]
  /** The access rules of resources; without them, restricted reports contain no rows. */
  access?: ReportAccess
  /** Path to a font file for PDFs. */
  pdfFont?: string | null
}

/**
 * Returns the job that renders a task's report. Throws a `Problem` if the report's type, format or parameters are no
 * longer accepted, its condition throws, or the requester has lost the required scope.
 */
export async function renderJob(options: OrderOptions, task: Task, resultKey: string): Promise<RenderJob> {
  const { db, kinds, now, pdfFont = null } = options
  const { reportType, format } = task
  const kind = kinds.find(({ name }) => name === reportType)
  if (!kind || !formats.has(format)) {
    throw new Problem('INTERNAL_ERROR', 'The report type or format is no longer offered')
  }
  const query = queryOf(task)
  const matching = matchingNow(kind, query, now)
  return {
    ...{ resultKey, format, title: kind.title ?? kind.name, pdfFont, madeAt: iso(now()) },
    columns: columnsOf(kind, query).map(({ name, type }) => ({ name, type })),
    read: readOf(db, kind, query, { ...(await requesterOf(options, kind, task)), matching }),
  }
}

/**
 * Returns the test that selects the rows of a typed report, by its current declaration; undefined for other reports.
 * Throws a `Problem` if the declaration rejects the parameters or fails, because a retry would fail again.
 */
function matchingNow(kind: ServedReport, requested: ReportQuery, now: () => number): RowTest | undefined {
  if (kind.typed === undefined) return undefined
  const { query, errors } = checkParameters(kind, requested)
  if (errors.length > 0) {
    throw new Problem('VALIDATION_ERROR', `The report ${kind.name} now has other parameters: request it again`)
  }
  try {
    return matchingRows(kind.typed, query, now)
  } catch (error) {
    throw new Problem('INTERNAL_ERROR', `The condition of the report ${kind.name} failed`, { cause: error })
  }
}

/**
 * Returns the requester of a task. The requester of a restricted report has its current claims and scopes, not the ones
 * from the time of the request.
 */
async function requesterOf({ access }: OrderOptions, kind: ServedReport, task: Task): Promise<ReportRequester> {
  const { ownerClient: clientId, ownerSubject: subject, asAdmin } = task
  if (!kind.restricted || !access) return { clientId, subject, isAdmin: asAdmin === 1 }
  const caller = await access.callerNow(task)
  if (kind.scope !== null && !caller.scopes.has(kind.scope)) throw lacksScope(kind.scope)
  return requesterFor(kind, access, caller)
}
