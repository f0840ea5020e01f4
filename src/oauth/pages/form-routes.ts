import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { errors } from 'oidc-provider'
import type { Frame, Page } from '../../http/pages/layout.ts'
import { toProblem } from '../../http/problems/error-handler.ts'
import { Problem } from '../../http/problems/problem.ts'
import { errorTitle, plainErrorBody } from './error.ts'

/** What a form sent: the first value of each name. */
export type Form = Record<string, string>
export type FormRequest = FastifyRequest<{ Body: Form | undefined; Params: { uid: string } }>

const bodyLimit = 16_384
const form = 'application/x-www-form-urlencoded'

export interface PageFailures {
  frame: Frame
  isUnavailable: (error: unknown) => boolean
  /** Is told of each failure that is not the visitor's. */
  report: (error: unknown, requestId: string) => void
}

/** Answers with a page that nobody keeps; that it tells the next site nothing is said of every answer. */
export function sendPage(reply: FastifyReply, status: number, { html, policy }: Page): FastifyReply {
  return reply
    .code(status)
    .header('content-security-policy', policy)
    .header('cache-control', 'no-store')
    .type('text/html; charset=utf-8')
    .send(html)
}

/**
 * Makes the routes of this scope pages for people: they read forms only, refuse what other sites send (RFC 6749 §10.12),
 * and show every error as a page.
 */
export function servePages(app: FastifyInstance, { frame, isUnavailable, report }: PageFailures): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(form, { parseAs: 'string', bodyLimit }, (_request, body, done) => {
    const entries = [...new URLSearchParams(body as string)].reverse()
    done(null, Object.fromEntries(entries))
  })
  app.addHook('onRequest', async ({ method, headers }) => {
    if (method === 'POST' && headers['sec-fetch-site'] === 'cross-site') {
      throw new Problem('PERMISSION_DENIED', 'Another site sent this form. Nothing was done.')
    }
  })
  app.setErrorHandler((error, request, reply) => {
    const problem = visible(error, isUnavailable)
    if (problem.status >= 500) report(problem.cause ?? error, request.id)
    return sendPage(
      reply.headers(problem.headers ?? {}),
      problem.status,
      frame(errorTitle, plainErrorBody(problem.message)),
    )
  })
}

const expired = 'This sign-in was finished already, or took too long. Go back to the app and start again.'

function visible(error: unknown, isUnavailable: (error: unknown) => boolean): Problem {
  if (error instanceof errors.SessionNotFound) return new Problem('INVALID_INPUT', expired, { cause: error })
  return toProblem(error, { isUnavailable })
}
