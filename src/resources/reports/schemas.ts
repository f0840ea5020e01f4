import { Type } from 'typebox'
import { ReportParameters } from './parameters.ts'

const Instant = Type.String({ format: 'date-time' })

export const ReportRequest = Type.Object({
  reportType: Type.String({ description: 'One of /api/report-types' }),
  format: Type.String({ description: 'One of the formats of the report type' }),
  webhookUrl: Type.Optional(Type.String({ maxLength: 2_048, description: 'Called when the task is finished' })),
  parameters: Type.Optional(ReportParameters),
})

const Link = Type.Object({ href: Type.String(), method: Type.Optional(Type.String()) })

/** A task, every field optional because `fields` may leave it out. */
export const TaskView = Type.Partial(
  Type.Object({
    taskId: Type.String(),
    status: Type.String({ description: 'One of pending, in_progress, completed, failed' }),
    resultUrl: Type.String({ description: 'Path of the download, once completed' }),
    reportType: Type.String(),
    format: Type.String(),
    parameters: Type.Object({}, { additionalProperties: true, description: 'As they were understood' }),
    retryOf: Type.String({ description: 'The task that this one repeats' }),
    progress: Type.Integer({ minimum: 0, maximum: 100 }),
    createdAt: Instant,
    startedAt: Instant,
    completedAt: Type.String({ format: 'date-time', description: 'When it was completed or failed' }),
    expiresAt: Type.String({ format: 'date-time', description: 'When the result is removed' }),
    attempts: Type.Integer(),
    rowCount: Type.Integer(),
    sizeBytes: Type.Integer(),
    error: Type.Object({ errorCode: Type.String(), message: Type.String() }),
    _links: Type.Record(Type.String(), Link),
  }),
)

export const ReportType = Type.Partial(
  Type.Object({
    reportType: Type.String(),
    title: Type.String(),
    scope: Type.String({ description: 'The scope it takes besides reports:write' }),
    formats: Type.Array(Type.String()),
    columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
    parameters: Type.Object({}, { additionalProperties: true, description: 'JSON Schema of the parameters' }),
  }),
)

export const TaskParams = Type.Object({ taskId: Type.String() })

export const TaskQuery = Type.Object({
  fields: Type.Optional(Type.String({ description: 'Names of the fields to return' })),
})
