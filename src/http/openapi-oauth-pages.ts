import { type Content, type HeaderName, headerReferences, type Parameter, type Response } from './openapi-components.ts'
import type { Written } from './openapi-document.ts'
import { ref, tags } from './openapi-oauth-parts.ts'
import type { Operation } from './openapi-operation.ts'
import type { Schema } from './openapi-schemas.ts'

export const text = { type: 'string' }

interface Places {
  authorization: string
  end_session: string
}

/** Where a browser is sent, and the steps that it takes from there by itself. */
export function browserOperations({ authorization, end_session }: Places): Written['paths'] {
  return {
    [authorization]: { get: authorize, post: asForm('authorizeByForm', 'The same request as a form') },
    [`${authorization}/{uid}`]: { get: resume },
    [end_session]: { get: logout, post: asForm('logOutByForm', 'The same request as a form') },
    [`${end_session}/confirm`]: { post: confirm },
    [`${end_session}/success`]: { get: loggedOut },
  }
}

const query = (name: string, description: string, required = false, schema: Schema = text): Parameter => ({
  name,
  in: 'query',
  description,
  ...(required && { required }),
  schema,
})

const html: Content = { 'text/html': { schema: text } }
const browser: HeaderName[] = ['Set-Cookie', 'Content-Security-Policy', 'Vary']

/** Error pages for people; programs that ask with Accept: application/json get RFC 6749's form. */
export const refused = (description: string): Response => ({
  description,
  headers: headerReferences(browser),
  content: { ...html, 'application/json': { schema: ref('OauthError') } },
})

/** An answer that is a page. */
export const page = (description: string): Response => ({
  description,
  headers: headerReferences(browser),
  content: html,
})

/** An answer that sends the browser on. */
export const onward = (description: string): Response => ({
  description,
  headers: headerReferences(['Location', ...browser]),
})

/** Something that a browser does without any token. */
export const step = (
  operationId: string,
  summary: string,
  rest: Pick<Operation, 'responses'> & Partial<Operation>,
) => ({
  operationId,
  summary,
  tags,
  security: [],
  ...rest,
  responses: { ...rest.responses, default: { $ref: '#/components/responses/OauthFailure' } },
})

const authorize = step('authorize', 'Send a person here to log in and consent (RFC 6749 §4.1)', {
  parameters: [
    query('response_type', '`code`; `id_token` only for clients registered for it', true, {
      type: 'string',
      enum: ['code', 'id_token'],
    }),
    query('client_id', 'The client', true),
    query('redirect_uri', 'Where the person is sent back to, exactly as registered', true),
    query('scope', 'Scopes, separated by spaces; `openid` for an ID token'),
    query('state', 'Comes back unchanged'),
    query('code_challenge', 'PKCE (RFC 7636), required of public clients'),
    query('code_challenge_method', 'How the challenge was made', false, { type: 'string', enum: ['S256'] }),
    query('nonce', 'Comes back in the ID token'),
    query('prompt', 'Whether to ask: `none`, `login`, `consent`'),
    query('max_age', 'Seconds since the login, at most'),
    query('login_hint', 'The e-mail address of who is expected'),
  ],
  responses: {
    '303': onward('On to the login page, or back to the client with `code` and `state`, or with `error`'),
    '400': refused('The client or its address is not known, or a parameter is wrong'),
  },
})

const asForm = (operationId: string, summary: string) =>
  step(operationId, summary, {
    requestBody: {
      required: true,
      content: { 'application/x-www-form-urlencoded': { schema: { type: 'object', additionalProperties: text } } },
    },
    responses: {
      '303': onward('The same request by GET'),
      '400': refused('This is no form'),
      '413': refused('The body is larger than 56 KiB'),
    },
  })

const resume = step('resumeAuthorization', 'Go on after a person has logged in or consented', {
  parameters: [{ name: 'uid', in: 'path', description: 'The login under way', required: true, schema: text }],
  responses: {
    '303': onward('Back to the client, or on to the next page'),
    '400': refused('The login has expired, or began in another browser'),
  },
})

const logout = step('logOut', 'Send a person here to log out (OpenID Connect RP-Initiated Logout)', {
  parameters: [
    query('id_token_hint', 'The ID token of who shall be logged out'),
    query('post_logout_redirect_uri', 'Where the person is sent afterwards, exactly as registered'),
    query('client_id', 'The client'),
    query('state', 'Comes back unchanged'),
  ],
  responses: {
    '200': page('The page that asks, or tells that nobody is logged in'),
    '303': onward('Nobody is logged in: back to the client'),
    '400': refused('A parameter is wrong'),
  },
})

const confirm = step('confirmLogOut', 'The answer of the page that asks', {
  requestBody: {
    required: true,
    content: {
      'application/x-www-form-urlencoded': {
        schema: {
          type: 'object',
          properties: {
            xsrf: { type: 'string', description: 'As the page gave it' },
            logout: { type: 'string', description: 'To log out' },
          },
          required: ['xsrf'],
        },
      },
    },
  },
  responses: {
    '303': onward('Back to the client, or on to the page that tells'),
    '400': refused('The page is not known, or was made for another browser'),
    '413': refused('The body is larger than 56 KiB'),
  },
})

const loggedOut = step('readLoggedOut', 'The page that tells that one is logged out', {
  responses: { '200': page('The page'), '400': refused('The request is malformed') },
})
