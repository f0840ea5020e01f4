import { type Content, type HeaderName, headerReferences, type Response } from '../../openapi/components.ts'
import type { Schema } from '../../openapi/schemas.ts'

export const tags = ['oauth']

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

export const ofJson = (schema: Schema): { content: Content } => ({ content: { 'application/json': { schema } } })

/** An error response of the authorization server (RFC 6749 §5.2). */
export const failed = (description: string, headers: readonly HeaderName[] = []): Response => ({
  description,
  ...(headers.length > 0 && { headers: headerReferences(headers) }),
  ...ofJson(ref('OauthError')),
})

/** An error of the authorization server, or one that the service returns before the request reaches it. */
export const failure: Response = {
  description: 'An internal error (500), an overload (503) or a malformed HTTP request',
  headers: headerReferences(['Retry-After']),
  content: {
    'application/json': { schema: ref('ErrorBody') },
    'application/problem+json': { schema: ref('ErrorBody') },
  },
}
