import type { Caller } from '../http/policies/authenticate.ts'
import { lacksScope } from '../http/policies/authorize.ts'
import { type FieldError, Problem } from '../http/problems/problem.ts'
import { urlErrors } from '../http/text-rules.ts'
import { newId } from '../storage/ids.ts'
import { formats } from './formats/formats.ts'
import { checkParameters } from './parameters.ts'
import { countUpTo, type ReportKind, type ReportQuery } from './report-types.ts'
import type { ReportsOptions } from './route-parts.ts'
import type { ReportRequest } from './schemas.ts'
import type { NewTask } from './tasks.ts'

/** The context in which a report request is validated. */
export interface RequestContext {
  owner: Caller
  versionPrefix: string
  retryOf?: string
}

/**
 * Validates a report request and returns its task. Throws a `Problem` for every error that can be detected before the 202.
 */
export async function validateReportRequest(
  options: ReportsOptions,
  body: ReportRequest,
  context: RequestContext,
): Promise<NewTask> {
  const { reportType, format, webhookUrl = null } = body
  const { owner, versionPrefix, retryOf } = context
  const { kind, query } = understood(options, body)
  if (kind.scope && !owner.scopes.has(kind.scope)) throw lacksScope(kind.scope)
  await refuseTooManyRows(options, kind, query, format, owner)
  if (webhookUrl !== null) await refuseBlocked(options, webhookUrl)
  const parameters = Object.keys(query).length > 0 ? { parameters: query } : {}
  const id = newId('tsk', options.random)
  return { id, reportType, format, webhookUrl, versionPrefix, ...parameters, ...(retryOf && { retryOf }) }
}

function understood(options: ReportsOptions, body: ReportRequest) {
  const kind = kindOf(options, body)
  const errors = reportErrors(options, body)
  if (!kind || errors.length > 0) throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
  return { kind, query: checkParameters(kind, body.parameters).query }
}

const kindOf = ({ kinds }: ReportsOptions, { reportType }: ReportRequest) =>
  kinds.find(({ name }) => name === reportType)

/** Returns violations of rules that the schema does not express. */
export function reportErrors(options: ReportsOptions, body: ReportRequest): FieldError[] {
  const { reportType, format, webhookUrl, parameters } = body
  const types = options.kinds.map(({ name }) => name)
  const kind = kindOf(options, body)
  return [
    ...unlessOneOf('reportType', reportType, types),
    ...unlessOneOf('format', format, [...formats.keys()]),
    ...(webhookUrl === undefined ? [] : urlErrors('webhookUrl', webhookUrl)),
    ...(kind ? checkParameters(kind, parameters).errors : []),
  ]
}

const unlessOneOf = (field: string, value: string, allowed: string[]): FieldError[] =>
  allowed.includes(value) ? [] : [{ field, message: `must be one of: ${allowed.join(', ')}` }]

async function refuseTooManyRows(
  { db }: ReportsOptions,
  kind: ReportKind,
  query: ReportQuery,
  format: string,
  { clientId, subject, scopes }: Caller,
): Promise<void> {
  const maxRows = formats.get(format)?.maxRows
  if (maxRows === undefined) return
  const rows = await countUpTo(db, kind, query, { clientId, subject, isAdmin: scopes.has('admin') }, maxRows + 1)
  if (rows <= maxRows) return
  const message = `has at most ${maxRows.toLocaleString('en')} rows, and this report has more: narrow it, or choose another format`
  throw new Problem('VALIDATION_ERROR', 'The report is too large for its format', {
    errors: [{ field: 'format', message }],
  })
}

async function refuseBlocked({ checkCallback }: ReportsOptions, webhookUrl: string): Promise<void> {
  const verdict = checkCallback ? await checkCallback(webhookUrl) : { ok: true as const }
  if (verdict.ok) return
  const errors = [{ field: 'webhookUrl', message: verdict.reason }]
  throw new Problem('CALLBACK_URL_BLOCKED', 'The service may not call this address', { errors })
}
