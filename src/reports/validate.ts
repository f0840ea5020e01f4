import type { Caller } from '../http/policies/authenticate.ts'
import { lacksScope } from '../http/policies/authorize.ts'
import { validatedBy } from '../http/policies/body-parsing.ts'
import { type FieldError, Problem } from '../http/problems/problem.ts'
import { urlErrors } from '../http/text-rules.ts'
import { newId } from '../storage/ids.ts'
import { matchingRows, readDeclared } from './declared-report.ts'
import { formats } from './formats/formats.ts'
import { checkParameters } from './parameters.ts'
import { countUpTo, type ReportQuery, requesterFor, type ServedReport } from './report-types.ts'
import type { ReportsOptions } from './route-parts.ts'
import { type ReportRequest, reportRequest } from './schemas.ts'
import type { NewTask } from './tasks.ts'

/** The context in which a report request is validated. */
export interface RequestContext {
  owner: Caller
  versionPrefix: string
  retryOf?: string
}

/**
 * Validates a report request and returns its task. Throws a `Problem` for every error that can be detected before the
 * service responds with 202.
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
  const scopes = kind.restricted && { scopes: [...owner.scopes].join(' ') }
  return { id, reportType, format, webhookUrl, versionPrefix, ...parameters, ...(retryOf && { retryOf }), ...scopes }
}

function understood(options: ReportsOptions, body: ReportRequest) {
  const kind = kindOf(options, body)
  const errors = reportRequestErrors(options, body)
  if (!kind || errors.length > 0) throw new Problem('VALIDATION_ERROR', 'Some fields break a rule', { errors })
  return { kind, query: checkParameters(kind, body.parameters).query }
}

const kindOf = ({ kinds }: ReportsOptions, { reportType }: Pick<ReportRequest, 'reportType'>) =>
  kinds.find(({ name }) => name === reportType)

/** Returns violations of rules that the schema does not express. */
export function reportRequestErrors(options: ReportsOptions, body: ReportRequest): FieldError[] {
  const kind = kindOf(options, body)
  return [...taskErrors(options, body), ...(kind ? checkParameters(kind, body.parameters).errors : [])]
}

/** Returns the violations in the request's other members, outside `parameters`. */
function taskErrors({ kinds }: ReportsOptions, { reportType, format, webhookUrl }: ReportRequest): FieldError[] {
  const types = kinds.map(({ name }) => name)
  return [
    ...unlessOneOf('reportType', reportType, types),
    ...unlessOneOf('format', format, [...formats.keys()]),
    ...(webhookUrl === undefined ? [] : urlErrors('webhookUrl', webhookUrl)),
  ]
}

/**
 * Compiles the validation of a request's body. The parameters of a typed report are validated against its declaration,
 * and all errors are reported together.
 */
export const requestValidator =
  (options: ReportsOptions) =>
  ({ httpPart = 'body' }: { httpPart?: string | undefined }) => {
    const part = { schema: reportRequest(options.kinds), httpPart }
    const check = validatedBy((body: ReportRequest) => reportRequestErrors(options, body))(part)
    const checkTask = validatedBy((body: ReportRequest) => taskErrors(options, body))(part)
    return (body: unknown): ReturnType<typeof check> => {
      const { reportType, parameters, ...rest } = Object(body)
      const { typed } = kindOf(options, { reportType: String(reportType).trim() }) ?? {}
      if (httpPart !== 'body' || typed === undefined) return check(body)
      const task = checkTask({ reportType, ...rest })
      const declared = readDeclared(typed, parameters)
      if ('value' in task && 'value' in declared)
        return { value: { ...Object(task.value), parameters: declared.value } }
      return { error: [...('error' in task ? task.error : []), ...('failures' in declared ? declared.failures : [])] }
    }
  }

const unlessOneOf = (field: string, value: string, allowed: string[]): FieldError[] =>
  allowed.includes(value) ? [] : [{ field, message: `must be one of: ${allowed.join(', ')}` }]

async function refuseTooManyRows(
  { db, access, now }: ReportsOptions,
  kind: ServedReport,
  query: ReportQuery,
  format: string,
  owner: Caller,
): Promise<void> {
  const matching = matchingRows(kind.typed, query, now)
  const maxRows = formats.get(format)?.maxRows
  if (maxRows === undefined) return
  const requester = { ...(await requesterFor(kind, access, owner)), matching }
  const rows = await countUpTo(db, kind, query, requester, maxRows + 1)
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
