import fastifyPlugin from 'fastify-plugin'

/** Where one line per answered request goes; never the query string, a header or a body, which may hold secrets. */
export interface AccessLine {
  requestId: string
  method: string
  path: string
  status: number
  ms: number
  client: string | undefined
}

/** The access log. */
export const accessLog = fastifyPlugin<{ write: (line: AccessLine) => void }>(
  async (app, { write }) => {
    app.addHook('onResponse', (request, reply, done) => {
      const { caller, url } = request
      const query = url.indexOf('?')
      write({
        requestId: request.id,
        method: request.method,
        path: query < 0 ? url : url.slice(0, query),
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 100) / 100,
        client: caller && 'caller' in caller ? caller.caller.clientId : undefined,
      })
      done()
    })
  },
  { name: 'accessLog' },
)
