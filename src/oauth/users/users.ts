import type { Audit } from '../../audit/buffer.ts'
import { auditRecorder } from '../../audit/chain.ts'
import { type Branding, type Frame, pageFrame } from '../../http/pages/layout.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { type Invitations, invitations } from './invitations.ts'
import { createPasswordLogin, type Login } from './login.ts'
import { type LoginTries, loginTries, type TryLimits } from './login-throttle.ts'
import { invitationMail, type SendInvitation } from './mail.ts'
import { type PasswordCost, passwords } from './passwords.ts'

export interface UserPartsOptions {
  db: Database
  sealer: Sealer
  /** The origin of links sent to users. */
  issuer: string
  now: () => number
  random: (size: number) => Uint8Array
  branding: Branding
  /** The mail server and the sender; null if no mail is sent. */
  smtp: { url: string; from: string } | null
  limits?: TryLimits
  /** Audits successful, failed and blocked logins. */
  audit?: Pick<Audit, 'note' | 'tally'>
  cost?: PasswordCost
  /** The number of threads that share the limit of concurrent password hashes; 1 by default. */
  threads?: number
}

/** The components for logging in: password login, invitations and the page layout. */
export interface UserParts {
  login: Login
  invitations: Invitations
  /** Reads the password attempts for an account, by its case-folded e-mail address. */
  readTries: LoginTries['read']
  sendInvitation: SendInvitation | null
  frame: Frame
}

/** Creates the components. Call once per thread, because its logins share one limit on concurrent password hashes. */
export function createUserParts(options: UserPartsOptions): UserParts {
  const { db, sealer, issuer, now, random, branding, smtp, limits, audit, cost, threads } = options
  const hasher = passwords(random, cost, threads)
  const tries = loginTries(db, sealer, now, limits)
  return {
    login: createPasswordLogin({ db, sealer, passwords: hasher, tries, random, now, ...(audit && { audit }) }),
    invitations: invitations({ db, passwords: hasher, issuer, now, random, record: auditRecorder(sealer, now) }),
    readTries: tries.read,
    sendInvitation: smtp && invitationMail({ ...smtp, productName: branding.productName }),
    frame: pageFrame(branding),
  }
}
