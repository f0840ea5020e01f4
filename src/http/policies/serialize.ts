import build from 'fast-json-stringify'
import fastifyPlugin from 'fastify-plugin'

/**
 * Only declared fields leave: answers are written by their schema. What writes them is compiled when a route first answers,
 * as most routes of most versions are not called for a while, and the start would wait for all of them.
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
