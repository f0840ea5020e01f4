import { named, optional, text } from './setting.ts'

/** Settings for e-mail and for the branding of the login pages. */
export const userSettings = {
  productName: named(
    'PLINTH_PRODUCT_NAME',
    text('Plinth', 'Name of the service on the login pages', /^\P{C}{1,60}$/u, '1 to 60 characters'),
  ),
  accentColor: named(
    'PLINTH_ACCENT_COLOR',
    text('#2552c8', 'Colour of the buttons on the login pages', /^#[0-9a-fA-F]{6}$/, 'a colour such as #2552c8'),
  ),
  smtpUrl: named(
    'PLINTH_SMTP_URL',
    optional(text('', 'Mail server that sends invitations', /^smtps?:\/\/[^/\s]+$/, 'smtp://… or smtps://…')),
  ),
  smtpFrom: named(
    'PLINTH_SMTP_FROM',
    optional(text('', 'Sender address of invitations', /^[^@\s<>]+@[^@\s<>]+$/, 'an e-mail address')),
  ),
}
