import { isIP } from 'node:net'
import { Expected, setting, split } from './setting.ts'

/** Defines a URL setting that must match `form`. Its value is the URL as written. */
export const url = (about: string, form: RegExp, expected: string) =>
  setting(
    (value) => {
      if (!form.test(value) || !URL.canParse(value)) throw new Expected(expected)
      return value
    },
    '',
    about,
  )

/**
 * Defines an origin setting: `https://host[:port]` without a path, because the service always runs at the root of its
 * origin. With `allowLoopback`, http is allowed for loopback hosts.
 */
export const origin = (allowLoopback: boolean, about: string) =>
  setting(
    (value) => {
      const url = URL.parse(value)
      const isLocal = allowLoopback && url?.protocol === 'http:' && loopback.test(url.hostname)
      if ((url?.protocol !== 'https:' && !isLocal) || url?.pathname !== '/' || url.search || url.hash || url.username) {
        throw new Expected('an https:// address without a path, such as https://api.example.com')
      }
      return url.origin
    },
    '',
    about,
  )

/**
 * Defines an issuer identifier setting (RFC 8414 §2). Its value is the text as written, because tokens must repeat it
 * exactly. With `allowLoopback`, http is allowed for localhost, 127.0.0.1 and [::1].
 */
export const issuer = (allowLoopback: boolean, about: string) =>
  setting(
    (value) => {
      const url = URL.parse(value)
      const isLocal =
        allowLoopback && url?.protocol === 'http:' && /^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname)
      if ((url?.protocol !== 'https:' && !isLocal) || url?.search || url?.hash || url?.username) {
        throw new Expected('an https:// address without query and fragment, such as https://id.example.com/realm')
      }
      return value
    },
    '',
    about,
  )

/** Matches loopback hosts as they appear in URLs. */
export const loopback = /^(localhost|[a-z0-9.-]+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/

/**
 * Returns whether a text is an origin as browsers send it, with a port only if that is not the scheme's default. The
 * scheme must be https or, with `allowLoopback`, http with a loopback host.
 */
function isOrigin(text: string, allowLoopback: boolean): boolean {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || url.origin !== text || !/^[a-z0-9.:[\]-]+$/.test(url.hostname)) return false
  return url.protocol === 'https:' || (allowLoopback && url.protocol === 'http:' && loopback.test(url.hostname))
}

/** Defines a list of origins as browsers send them: https or, with `allowLoopback`, http with a loopback host. */
export const origins = (allowLoopback: boolean, fallback: string, about: string) =>
  setting(
    (value) => {
      const parts = split(value)
      const wrong = parts.find((part) => !isOrigin(part, allowLoopback))
      if (wrong !== undefined) {
        const loopbackToo = allowLoopback ? ' (or http:// on a loopback host)' : ''
        throw new Expected(`origins such as https://app.example.com${loopbackToo}, comma-separated (${wrong} is none)`)
      }
      return parts
    },
    fallback,
    about,
  )

const isCidr = (entry: string): boolean => {
  const [address = '', bits, more] = entry.split('/')
  const most = isIP(address) === 6 ? 128 : 32
  return (
    isIP(address) !== 0 && more === undefined && (bits === undefined || (/^\d+$/.test(bits) && Number(bits) <= most))
  )
}

/** Defines a list of IP addresses and CIDRs; `/0` is valid only if `canBeAll` is set. */
export const cidrs = (fallback: string, about: string, canBeAll = true) =>
  setting(
    (value) => {
      const parts = split(value)
      const wrong = parts.find((part) => !isCidr(part))
      if (wrong !== undefined) throw new Expected(`IP addresses or CIDRs, comma-separated (${wrong} is neither)`)
      const all = parts.find((part) => /\/0+$/.test(part))
      if (all !== undefined && !canBeAll) throw new Expected(`IP addresses or CIDRs of some, not of all (${all})`)
      return parts
    },
    fallback,
    about,
  )
