import type { Audit } from '../../audit/buffer.ts'
import { auditRecorder } from '../../audit/chain.ts'
import { type Branding, type Frame, pageFrame } from '../../http/pages/layout.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { type Invitations, invitations } from './invitations.ts'
import { createPasswordLogin, type Login } from './login.ts'
import { loginTries, type TryLimits } from './login-throttle.ts'
import { invitationMail, type SendInvitation } from './mail.ts'
import { defaultCost, type PasswordCost, passwords } from './passwords.ts'

export interface PeopleOptions {
  db: Database
  sealer: Sealer
  /** The origin of links sent to users. */
  issuer: string
  now: () => number
  random: (size: number) => Uint8Array
  branding: Branding
  /** Null if no mail is sent. */
  smtp: { url: string; from: string } | null
  limits?: TryLimits
  /** Audits who logged in and who could not. */
  audit?: Pick<Audit, 'note' | 'tally'>
  cost?: PasswordCost
}

/** Everything about users who log in: passwords, login, invitations, pages. */
export interface People {
  login: Login
  invitations: Invitations
  sendInvitation: SendInvitation | null
  frame: Frame
}

/** Create it once per process, as logins share the limit on concurrent hashes. */
export function people(options: PeopleOptions): People {
  const { db, sealer, issuer, now, random, branding, smtp, limits, audit, cost = defaultCost } = options
  const hasher = passwords(random, cost)
  const tries = loginTries(db, sealer, now, limits)
  return {
    login: createPasswordLogin({ db, sealer, passwords: hasher, tries, random, ...(audit && { audit }) }),
    invitations: invitations({ db, passwords: hasher, issuer, now, random, record: auditRecorder(sealer, now) }),
    sendInvitation: smtp && invitationMail({ ...smtp, productName: branding.productName }),
    frame: pageFrame(branding),
  }
}
