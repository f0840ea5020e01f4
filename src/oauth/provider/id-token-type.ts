import type Provider from 'oidc-provider'
import type { SigningKey } from '../keys/signing-key.ts'

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Adds `typ: JWT` to the header of ID tokens (RFC 7519 §5.1), as the API contract requires; the provider omits it. */
export function typeIdTokens(provider: Provider, key: SigningKey): void {
  const { prototype } = provider.IdToken
  const issue = prototype.issue
  prototype.issue = async function (context) {
    const token = await issue.call(this, context)
    if (context.use !== 'idtoken') return token
    const [header = '', payload = ''] = token.split('.')
    const { alg, ...fields } = JSON.parse(Buffer.from(header, 'base64url').toString())
    const input = `${encoded({ alg, typ: 'JWT', ...fields })}.${payload}`
    return `${input}.${(await key.sign(Buffer.from(input))).toString('base64url')}`
  }
}
