import type { Invitation } from './invitations.ts'

/** Sends an invitation by e-mail. Rejects if the mail server does not accept the message. */
export type SendInvitation = (invitation: Invitation) => Promise<void>

export interface MailOptions {
  /** A URL with the scheme `smtp` or `smtps`, including the credentials if the server requires them. */
  url: string
  from: string
  productName: string
}

const timeoutMs = 10_000

/** Returns the recipient, subject and text of an invitation. */
export const invitationText = (productName: string, { name, email, url }: Invitation) => ({
  to: { name, address: email },
  subject: `Choose your password for ${productName}`,
  text: `Hello ${name},

You have been invited to ${productName}. Choose a password with this link, which works once and expires in half an hour:

${url}

If you did not expect this invitation, you can ignore this message.
`,
})

/** Creates the invitation mailer. It opens a new connection for each message, because invitations are rare. */
export function invitationMail({ url, from, productName }: MailOptions): SendInvitation {
  return async (invitation) => {
    // Loaded lazily, because most services never send mail.
    const { createTransport } = await import('nodemailer')
    const limits = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, socketTimeout: timeoutMs }
    const transport = createTransport({ url, ...limits, disableFileAccess: true, disableUrlAccess: true })
    try {
      await transport.sendMail({ from, ...invitationText(productName, invitation) })
    } finally {
      transport.close()
    }
  }
}
