import { Type } from 'typebox'
import { CursorText, Fields, PageLimit } from '../../http/pagination.ts'
import { partialSchema } from '../../http/partial-schema.ts'

const Instant = (description: string) => Type.String({ format: 'date-time', description })
const Count = (description: string, example: number) =>
  Type.Optional(Type.Integer({ minimum: 0, description, examples: [example] }))

const VerificationView = Type.Object(
  {
    status: Type.String({
      enum: ['running', 'passed', 'failed', 'error'],
      description: '`failed`: the file is damaged or incomplete. `error`: the file could not be checked',
      examples: ['passed'],
    }),
    node: Type.String({ description: 'The node that checks it', examples: ['node-a 4242'] }),
    startedAt: Instant('When the check began'),
    finishedAt: Type.Optional(Instant('When the check ended')),
    error: Type.Optional(Type.String({ description: 'What is wrong', examples: ['database.db was altered'] })),
  },
  { description: 'The last check of the file; absent if it has not been checked' },
)

/** A backup as returned by the API. */
export const BackupView = partialSchema(
  Type.Object({
    id: Type.String({ examples: ['bkp_20261123T030000000Z'] }),
    kind: Type.String({ enum: ['scheduled', 'requested'], examples: ['scheduled'] }),
    requestedBy: Type.Optional(Type.String({ description: 'The client and the subject', examples: ['console 1'] })),
    status: Type.String({
      enum: ['pending', 'running', 'completed', 'failed'],
      description: '`pending`: a process with the role `worker` makes it within 15 seconds',
      examples: ['completed'],
    }),
    scheduledFor: Instant('The time for which it was scheduled, or at which it was requested'),
    startedAt: Type.Optional(Instant('When the last attempt began')),
    finishedAt: Type.Optional(Instant('When it was completed or failed')),
    node: Type.Optional(Type.String({ description: 'The node that makes or made it', examples: ['node-a 4242'] })),
    progress: Type.Optional(
      Type.Object(
        {
          step: Type.String({ enum: ['database', 'archive'], examples: ['archive'] }),
          doneBytes: Type.Integer({ minimum: 0, examples: [1_048_576] }),
          totalBytes: Type.Optional(Type.Integer({ minimum: 0, description: 'Absent if the total is not known' })),
        },
        { description: 'While it is made' },
      ),
    ),
    file: Type.Optional(Type.String({ description: 'Its name', examples: ['plinth-20261123T030004Z.backup'] })),
    location: Type.Optional(
      Type.String({ description: 'The folder or bucket of the file', examples: ['file:/var/lib/plinth/backups'] }),
    ),
    availability: Type.Optional(
      Type.String({
        enum: ['here', 'elsewhere', 'removed', 'unknown'],
        description:
          '`here`: this node can read the file. `elsewhere`: it is in a folder of another node. `removed`: newer backups ' +
          'have replaced it, or it was deleted. `unknown`: the bucket does not respond',
        examples: ['here'],
      }),
    ),
    sizeBytes: Count('Size of the file', 1_204_224),
    sha256: Type.Optional(
      Type.String({
        description: 'SHA-256 of the file in base64',
        examples: ['n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg='],
      }),
    ),
    takenAt: Type.Optional(Instant('It contains every change that was acknowledged before')),
    encrypted: Type.Optional(Type.Boolean({ description: 'Whether the file is encrypted', examples: [true] })),
    missingResults: Count('Report files that the result store no longer had', 0),
    damagedResults: Count('Report files that differ from what was stored', 0),
    error: Type.Optional(Type.String({ description: 'Why it failed', examples: ['No space left on device'] })),
    verification: Type.Optional(VerificationView),
  }),
)

export const BackupList = Type.Object({ limit: PageLimit, cursor: CursorText, fields: Fields })
export const BackupFields = Type.Object({ fields: Fields })
export const BackupParams = Type.Object({
  id: Type.String({ maxLength: 40, description: 'The id of the backup', examples: ['bkp_20261123T030000000Z'] }),
})
