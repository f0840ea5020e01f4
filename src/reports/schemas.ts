import { type Static, type TUnsafe, Type } from 'typebox'
import { Fields } from '../http/pagination.ts'
import { documentedAs, documentedRules, partialSchema } from '../http/partial-schema.ts'
import { formats } from './formats/formats.ts'
import { ReportParameters } from './parameters.ts'
import type { ServedReport } from './report-types.ts'

const Instant = Type.String({ format: 'date-time' })
const formatNames = [...formats.keys()]
const taskId = 'tsk_9mZ4qXb1TzqkPj0y7vWc2A'
const path = `/api/reports/${taskId}`

/** Returns the schema of a report request's body. */
export const reportRequest = (kinds: readonly ServedReport[]) => requestWith(kinds, ReportParameters)

/**
 * Returns the schema of a report request's body for the documentation. It also describes the parameters of typed
 * reports, which `requestValidator` validates.
 */
export function documentedRequest(kinds: readonly ServedReport[]) {
  const declared = kinds.flatMap(({ name, typed }) =>
    typed ? [{ ...typed.parameters, description: `The parameters of the report type ${name}` }] : [],
  )
  if (declared.length === 0) return reportRequest(kinds)
  const parameters = Type.Unsafe<Static<typeof ReportParameters>>({
    ...{ type: 'object', ...documentedAs({ anyOf: [ReportParameters, ...declared] }) },
  })
  return requestWith(kinds, parameters)
}

const requestWith = (kinds: readonly ServedReport[], parameters: typeof ReportParameters | ParametersSchema) => {
  const types = kinds.map(({ name }) => name)
  return Type.Object(
    {
      reportType: Type.String({
        description: 'A report type of /api/report-types',
        ...documentedRules({ enum: types }),
      }),
      format: Type.String({ ...documentedRules({ enum: formatNames }), examples: ['csv'] }),
      webhookUrl: Type.Optional(
        Type.String({
          maxLength: 2_048,
          description: 'Absolute https URL that is called when the task has finished',
          ...documentedRules({ format: 'uri' }),
          examples: ['https://client.example/hooks/reports'],
        }),
      ),
      parameters: Type.Optional(parameters as ParametersSchema),
    },
    { examples: [{ reportType: types[0], format: 'csv' }] },
  )
}

type ParametersSchema = TUnsafe<Static<typeof ReportParameters>>

const Link = Type.Object({ href: Type.String(), method: Type.Optional(Type.String()) })

const count = Type.Optional(Type.Integer({ minimum: 0 }))

const completed = {
  taskId,
  status: 'completed',
  resultUrl: `${path}/download`,
  reportType: 'activity',
  format: 'csv',
  progress: 100,
  createdAt: '2026-03-01T12:00:00.000Z',
  startedAt: '2026-03-01T12:00:00.100Z',
  completedAt: '2026-03-01T12:00:00.900Z',
  expiresAt: '2026-03-08T12:00:00.900Z',
  attempts: 1,
  rowCount: 1_200,
  sizeBytes: 65_536,
  _links: {
    self: { href: path },
    status: { href: `${path}/status` },
    download: { href: `${path}/download` },
    retry: { href: `${path}/retry`, method: 'POST' },
    delete: { href: path, method: 'DELETE' },
  },
}

const ownerOf = (description: string) =>
  Type.Optional(Type.String({ description: `${description}; only in lists with \`owner=all\`` }))

/** A report task, as returned by the API. */
export const TaskView = partialSchema(
  Type.Object({
    taskId: Type.String(),
    status: Type.String({ enum: ['pending', 'in_progress', 'completed', 'failed'] }),
    resultUrl: Type.Optional(Type.String({ description: 'Path of the download, once completed' })),
    reportType: Type.String(),
    format: Type.String({ enum: formatNames }),
    parameters: Type.Optional(
      Type.Object({}, { additionalProperties: true, description: 'The parameters of the request, as parsed' }),
    ),
    retryOf: Type.Optional(Type.String({ description: 'The task that this one retries' })),
    progress: Type.Integer({ minimum: 0, maximum: 100 }),
    createdAt: Instant,
    startedAt: Type.Optional(Instant),
    completedAt: Type.Optional(Type.String({ format: 'date-time', description: 'When the task completed or failed' })),
    expiresAt: Type.Optional(Type.String({ format: 'date-time', description: 'When the result is removed' })),
    attempts: Type.Integer({ minimum: 0 }),
    rowCount: count,
    sizeBytes: count,
    error: Type.Optional(Type.Object({ errorCode: Type.String(), message: Type.String() })),
    ownerClient: ownerOf('The client that requested the report'),
    ownerSubject: ownerOf('The user that the client acted for, or the client itself'),
    _links: Type.Record(Type.String(), Link),
  }),
  { examples: [completed] },
)

const activityType = {
  reportType: 'activity',
  title: 'Activity',
  formats: ['csv'],
  columns: [{ name: 'day', type: 'date' }],
  parameters: { type: 'object', properties: { fields: { type: 'array', items: { type: 'string', enum: ['day'] } } } },
}

export const ReportType = Type.Object(
  {
    reportType: Type.String(),
    title: Type.String(),
    scope: Type.Optional(
      Type.String({ description: 'The scope that the report requires in addition to reports:write' }),
    ),
    formats: Type.Array(Type.String({ enum: formatNames })),
    columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
    parameters: Type.Object({}, { additionalProperties: true, description: 'JSON Schema of the parameters' }),
  },
  { examples: [activityType] },
)

export type ReportRequest = Static<ReturnType<typeof reportRequest>>

export const TaskParams = Type.Object({
  taskId: Type.String({ description: 'The id from the 202 response', examples: [taskId] }),
})

export const TaskQuery = Type.Object({ fields: Fields })
