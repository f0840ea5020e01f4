import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Frame, Page } from '../../http/pages/layout.ts'
import { toProblem } from '../../http/problems/error-handler.ts'
import { Problem } from '../../http/problems/problem.ts'
import { interactionPath } from '../provider/http/endpoints.ts'
import { busyPage, errorTitle, plainErrorBody } from './error.ts'

/** Form fields by name; for a repeated name, only the first value. */
export type Form = Record<string, string>
export type FormRequest = FastifyRequest<{ Body: Form | undefined; Params: { uid?: string } }>

const bodyLimit = 16_384
const retryAfterSeconds = 5
const form = 'application/x-www-form-urlencoded'

export interface PageFailures {
  frame: Frame
  isUnavailable: (error: unknown) => boolean
  /** Called with each error not caused by the visitor. */
  report: (error: unknown, requestId: string) => void
}

/** Sends a page with headers that prevent caching. Every response already has a Referrer-Policy. */
export function sendPage(reply: FastifyReply, status: number, { html, policy }: Page): FastifyReply {
  return reply
    .code(status)
    .header('content-security-policy', policy)
    .header('cache-control', 'no-store')
    .type('text/html; charset=utf-8')
    .send(html)
}

/**
 * Makes all routes in this scope serve pages: they accept only forms, reject forms submitted by other sites (RFC 6749
 * §10.12), and render every error as a page.
 */
export function servePages(app: FastifyInstance, { frame, isUnavailable, report }: PageFailures): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(form, { parseAs: 'string', bodyLimit }, (_request, body, done) => {
    const entries = [...new URLSearchParams(body as string)].reverse()
    done(null, Object.fromEntries(entries))
  })
  app.addHook('onRequest', async ({ method, headers }) => {
    if (method === 'POST' && headers['sec-fetch-site'] === 'cross-site') {
      throw new Problem('PERMISSION_DENIED', 'Another site submitted this form, so it was ignored.')
    }
  })
  app.setErrorHandler((error, request, reply) => {
    const problem = visible(error, isUnavailable)
    if (problem.status >= 500) report(problem.cause ?? error, request.id)
    reply.headers(problem.headers ?? {})
    if (problem.status !== 503)
      return sendPage(reply, problem.status, frame(errorTitle, plainErrorBody(problem.message)))
    const seconds = Number(reply.getHeader('retry-after') ?? retryAfterSeconds)
    const { page, headers } = busyPage(frame, seconds, retryPathOf(request as FormRequest))
    return sendPage(reply.headers(headers), 503, page)
  })
}

/** Returns the path that the browser opens to retry; null if the user must submit the form again. */
function retryPathOf({ method, url, params }: FormRequest): string | null {
  if (method === 'GET') return url
  return params.uid === undefined ? null : `${interactionPath}/${params.uid}`
}

const expired = 'This sign-in is already complete or took too long. Go back to the app and start again.'

/** Returns the problem for an interaction that is over or belongs to another browser. */
export const sessionNotFound = (cause: unknown) => new Problem('INVALID_INPUT', expired, { cause })

function visible(error: unknown, isUnavailable: (error: unknown) => boolean): Problem {
  // Compared by name, because importing the class would load oidc-provider before the first request needs it.
  if (error instanceof Error && error.name === 'SessionNotFound') return sessionNotFound(error)
  return toProblem(error, { isUnavailable })
}
