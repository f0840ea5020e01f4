import type { Invitation } from './invitations.ts'

/** Sends an invitation to the person it is for; rejects when the mail server does not take it. */
export type SendInvitation = (invitation: Invitation) => Promise<void>

export interface MailOptions {
  /** `smtp://` or `smtps://`, with user and password where the server wants them. */
  url: string
  from: string
  productName: string
}

const timeoutMs = 10_000

/** Makes the sender of invitations, over one connection each: they are rare. */
export function invitationMail({ url, from, productName }: MailOptions): SendInvitation {
  return async ({ url: link, name, email }) => {
    // Loaded when it is used: most services never send any mail.
    const { createTransport } = await import('nodemailer')
    const limits = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, socketTimeout: timeoutMs }
    const transport = createTransport({ url, ...limits, disableFileAccess: true, disableUrlAccess: true })
    try {
      await transport.sendMail({
        from,
        to: { name, address: email },
        subject: `Choose your password for ${productName}`,
        text: `Hello ${name},

you have been invited to ${productName}. Choose a password here; the link works once, for half an hour:

${link}

If you did not expect this, do nothing.
`,
      })
    } finally {
      transport.close()
    }
  }
}
