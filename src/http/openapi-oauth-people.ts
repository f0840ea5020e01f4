import type { Written } from './openapi-document.ts'
import { onward, page, refused, step, text } from './openapi-oauth-pages.ts'
import type { Schema } from './openapi-schemas.ts'

interface Places {
  interaction: string
  invitation: string
}

/** The pages where people log in, give their consent and choose a password; browsers come to them by redirects and links. */
export function peopleOperations({ interaction, invitation }: Places): Written['paths'] {
  const at = `${interaction}/{uid}`
  return {
    [at]: { get: show },
    [`${at}/login`]: { post: logIn },
    [`${at}/consent`]: { post: decide },
    [`${at}/cancel`]: { post: cancel },
    [invitation]: { get: showInvitation, post: choosePassword },
  }
}

const form = (properties: Record<string, Schema>) => ({
  required: true,
  content: {
    'application/x-www-form-urlencoded': { schema: { type: 'object', properties, required: Object.keys(properties) } },
  },
})

const uid = { name: 'uid', in: 'path', description: 'The login under way', required: true, schema: text } as const
const gone = refused('The login is done, has expired, or began in another browser')
const foreign = page('Another site sent the form')
const large = page('The form is too large')
const strange = page('This is no form')
const forms = { '400': gone, '403': foreign, '413': large, '415': strange }

const show = step('readInteraction', 'The page that a login is at: for the password, or for consent', {
  parameters: [uid],
  responses: { '200': page('The page'), '400': gone },
})

const logIn = step('sendLogin', 'The answer of the login page', {
  parameters: [uid],
  requestBody: form({ email: text, password: text }),
  responses: {
    ...forms,
    '303': onward('On to the next page, or back to the client'),
    '422': page('The login page again: address or password is wrong'),
    '429': page('The login page again: there were too many tries'),
  },
})

const decide = step('sendConsent', 'The answer of the consent page', {
  parameters: [uid],
  requestBody: form({ decision: { type: 'string', enum: ['allow', 'deny'] } }),
  responses: { ...forms, '303': onward('Back to the client') },
})

const cancel = step('cancelLogin', 'The person does not want to log in', {
  parameters: [uid],
  responses: { ...forms, '303': onward('Back to the client, with the error access_denied') },
})

const token = {
  name: 'token',
  in: 'query',
  description: 'As the invitation gave it',
  required: true,
  schema: text,
} as const
const worthless = page('The link was used, or is too old')

const showInvitation = step('readInvitation', 'The page where an invited person chooses a password', {
  parameters: [token],
  responses: { '200': page('The page'), '404': worthless },
})

const choosePassword = step('sendPassword', 'The answer of that page', {
  requestBody: form({ token: text, password: text, repeated: text }),
  responses: {
    '200': page('The password is set'),
    '403': foreign,
    '404': worthless,
    '413': large,
    '415': strange,
    '422': page('The page again: the password cannot be used'),
  },
})
