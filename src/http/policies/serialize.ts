import build from 'fast-json-stringify'
import fastifyPlugin from 'fastify-plugin'

/**
 * Sends only declared fields by serializing responses with their schemas. A serializer is compiled when its route sends its
 * first response: most routes of most versions are rarely called, and compiling all serializers would delay startup.
 */
export const serialize = fastifyPlugin(
  async (app) => {
    app.setSerializerCompiler<object>(({ schema }) => {
      let write: ((value: unknown) => string) | undefined
      return (value) => {
        write ??= build(schema as Parameters<typeof build>[0]) as (value: unknown) => string
        return write(value)
      }
    })
  },
  { name: 'serialize' },
)
