import build from 'fast-json-stringify'
import fastifyPlugin from 'fastify-plugin'

/**
 * Sends only declared fields by serializing responses with their schemas. A serializer is compiled on first use: most
 * routes of most versions are rarely called, and compiling all serializers would delay startup.
 */
export const serialize = fastifyPlugin(
  async (app) => {
    app.setSerializerCompiler<object>(({ schema }) => serializerOf(schema))
  },
  { name: 'serialize' },
)

/** Returns the function that writes the declared members of a value as JSON. It is compiled on first use. */
export function serializerOf(schema: object): (value: unknown) => string {
  let write: ((value: unknown) => string) | undefined
  return (value) => {
    write ??= build(schema as Parameters<typeof build>[0]) as (value: unknown) => string
    return write(value)
  }
}
