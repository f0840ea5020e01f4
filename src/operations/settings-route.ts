import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { DescribedSetting } from '../config/describe.ts'
import { Fields } from '../http/pagination.ts'
import { partialSchema } from '../http/partial-schema.ts'

const SettingView = partialSchema(
  Type.Object({
    name: Type.String({ description: 'The environment variable', examples: ['PLINTH_BACKUP_KEEP'] }),
    group: Type.String({ description: 'The component that uses it', examples: ['backup'] }),
    about: Type.String({ examples: ['Scheduled backups to keep; older ones are removed'] }),
    value: Type.Optional(
      Type.String({
        description: 'The effective value; absent if it is not set. Secrets, and passwords in URLs, are `…`',
        examples: ['7'],
      }),
    ),
    default: Type.Optional(Type.String({ description: 'Absent if there is none', examples: ['7'] })),
    source: Type.String({
      enum: ['environment', 'default'],
      description: '`environment` includes the file `.env`',
      examples: ['default'],
    }),
    secret: Type.Boolean({ description: 'Whether the value is hidden', examples: [false] }),
  }),
)

/** Serves GET /api/settings: the settings of this process. */
export const settingsRoute: FastifyPluginAsyncTypebox<{ settings: readonly DescribedSetting[] }> = async (
  app,
  { settings },
) => {
  const about = { tags: ['administration'], operationId: 'listSettings', summary: 'List the settings of this node' }
  const schema = { ...about, querystring: Type.Object({ fields: Fields }), response: { 200: Type.Array(SettingView) } }
  const config = { scope: 'admin', cache: 'private', fields: true } as const
  const views = settings.map(viewOf)
  app.get('/api/settings', { config, schema }, async () => views)
}

const viewOf = ({ name, group, about, value, fallback, isSet, isSecret }: DescribedSetting) => ({
  ...{ name, group, about, source: isSet ? 'environment' : 'default', secret: isSecret },
  ...((isSet || fallback) && { value }),
  ...(fallback && { default: fallback }),
})
